import pytest
from aiokafka.partitioner import murmur2 as aiokafka_murmur2
from hypothesis import given
from hypothesis import strategies as st

from headwater.protocol.partitioner import murmur2, partition_for_key


# From the tests of Kafka's Java client.
@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_matches_the_java_client(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed & 0xFFFFFFFF


@given(st.binary(max_size=64), st.integers(1, 1000))
def test_the_hash_matches_aiokafka(key: bytes, partition_count: int) -> None:
    expected = aiokafka_murmur2(key) & 0xFFFFFFFF
    assert murmur2(key) == expected
    assert partition_for_key(key, partition_count) == (expected & 0x7FFFFFFF) % partition_count
