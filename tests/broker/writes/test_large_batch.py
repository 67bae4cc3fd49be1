"""A large batch that is checked in a thread, in parts, is admitted or refused exactly as a small one."""

import dataclasses
import random
import struct
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater.broker.writes import intake, large_batch
from headwater.config.broker import BrokerConfig
from headwater.config.topic import TopicConfig
from headwater.errors import ErrorCode, HeadwaterError
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches import compression, directives
from headwater.protocol.batches.compression import PART_BYTES, Codec, DecompressedTooLarge
from headwater.protocol.batches.invalid_record import InvalidRecord
from headwater.protocol.batches.records import Record
from tests.support.broker.embedded_broker import NOW_MS, batch_of

MIB = 1 << 20
DECOMPRESSED_MAX = 4 * MIB
INLINE = dataclasses.replace(
    BrokerConfig(), headwater_batch_inline_bytes_max=2**31 - 1, headwater_batch_decompressed_bytes_max=DECOMPRESSED_MAX
)
IN_THREAD = dataclasses.replace(INLINE, headwater_batch_inline_bytes_max=0)
TOPICS = {
    "plain": TopicConfig(),
    "compacted": TopicConfig(cleanup_policy=frozenset({"compact"})),
    "headers only": TopicConfig(headwater_record_validation="header"),
    "append time": TopicConfig(message_timestamp_type="LogAppendTime"),
    "strict times": TopicConfig(message_timestamp_before_max_ms=10, message_timestamp_after_max_ms=10),
    "gzip": TopicConfig(compression_type="gzip"),
    "lz4": TopicConfig(compression_type="lz4"),
    "snappy": TopicConfig(compression_type="snappy"),
    "zstd, compacted": TopicConfig(compression_type="zstd", cleanup_policy=frozenset({"compact"})),
    "uncompressed": TopicConfig(compression_type="uncompressed"),
    "directives": TopicConfig(headwater_priority_enable=True, headwater_record_validation="header"),
    "small": TopicConfig(compression_type="uncompressed", max_message_bytes=2000),
}


def outcome(batch: bytes, topic: TopicConfig, *, in_thread: bool) -> Any:
    """What is admitted, decoded, or how it is refused."""
    produced = memoryview(bytearray(batch))
    try:
        if in_thread:
            with pytest.raises(intake.LargeBatch):
                header, admitted = intake.admit(produced, topic, IN_THREAD, NOW_MS)
            checked = large_batch.check(produced, topic, IN_THREAD, NOW_MS)
            header, admitted = intake.admit_checked(checked, topic, IN_THREAD, NOW_MS)
        else:
            header, admitted = intake.admit(produced, topic, INLINE, NOW_MS)
    except InvalidRecord as refusal:
        return refusal.code, refusal.index if refusal.refused else None, list(refusal.refused)
    except HeadwaterError as refusal:
        return refusal.code
    batches.verify(admitted, header)
    assert header == batches.read_header(admitted)
    if admitted[batches.HEADER_SIZE :] == produced[batches.HEADER_SIZE :]:
        return bytes(admitted)
    return header._replace(crc=0, batch_length=0), batches.read_records(admitted, header, DECOMPRESSED_MAX)


def check_both(batch: bytes, topic: TopicConfig) -> Any:
    inline = outcome(batch, topic, in_thread=False)
    try:
        in_thread = outcome(batch, topic, in_thread=True)
    except pytest.fail.Exception:
        return inline  # nothing that would take long was left to do
    assert in_thread == inline
    return inline


def sealed(batch: bytes | bytearray) -> bytes:
    changed = bytearray(batch)
    struct.pack_into(">I", changed, 17, batches.crc32c(bytes(changed[21:])))
    return bytes(changed)


def with_count(batch: bytes, count: int) -> bytes:
    changed = bytearray(batch)
    struct.pack_into(">i", changed, 23, count - 1)
    struct.pack_into(">i", changed, 57, count)
    return sealed(changed)


def large(codec: Codec, *, seed: int = 1, count: int = 3000, **options: Any) -> bytes:
    """Several parts, and records across their borders."""
    chosen = random.Random(seed)
    made = [
        Record(index, NOW_MS + chosen.randrange(-5, 5), b"%d" % index, chosen.randbytes(chosen.randrange(300)) * 2)
        for index in range(count)
    ]
    return bytes(batches.build(made, codec=codec, **options))


@pytest.mark.parametrize("name", TOPICS)
@pytest.mark.parametrize("codec", Codec)
def test_a_good_batch_is_admitted_in_the_same_form(codec: Codec, name: str) -> None:
    result = check_both(large(codec, producer_id=7, producer_epoch=1, base_sequence=5), TOPICS[name])

    assert result == ErrorCode.MESSAGE_TOO_LARGE if name == "small" else isinstance(result, bytes | tuple)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_a_record_of_many_parts_is_admitted(codec: Codec) -> None:
    batch = batch_of(b"a", bytes(10 * PART_BYTES), b"", None, bytes(2 * PART_BYTES), codec=codec, key=b"k")

    assert check_both(batch, TOPICS["plain"]) == batch


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_all_refused_records_are_named_wherever_they_lie(codec: Codec) -> None:
    keyless = [Record(index, NOW_MS, None if index % 700 == 3 else b"k", bytes(500)) for index in range(2000)]
    refusal = check_both(bytes(batches.build(keyless, codec=codec)), TOPICS["compacted"])
    assert [index for index, _ in refusal[2]] == [3, 703, 1403]

    late = [Record(index, NOW_MS + 11 * (index == 1999), b"k", bytes(500)) for index in range(2000)]
    refusal = check_both(bytes(batches.build(late, codec=codec)), TOPICS["strict times"])
    assert (refusal[0], [index for index, _ in refusal[2]]) == (ErrorCode.INVALID_TIMESTAMP, [1999])

    all_keyless = [Record(index, NOW_MS, None, b"") for index in range(30_000)]
    refusal = check_both(bytes(batches.build(all_keyless, codec=codec)), TOPICS["compacted"])
    assert 16 <= len(refusal[2]) < 30_000


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_a_batch_that_decompresses_to_too_much_is_refused(codec: Codec) -> None:
    bomb = batch_of(*[bytes(MIB)] * (DECOMPRESSED_MAX // MIB), codec=codec)

    assert check_both(bomb, TOPICS["plain"]) == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_a_limit_of_decompressed_bytes_below_that_of_small_batches_holds(codec: Codec) -> None:
    small = dataclasses.replace(BrokerConfig(), headwater_batch_decompressed_bytes_max=1024)
    produced = memoryview(bytearray(batch_of(bytes(2000), codec=codec)))

    with pytest.raises(DecompressedTooLarge):
        intake.admit(produced, TopicConfig(), small, NOW_MS)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_records_that_ask_for_the_impossible_are_named_in_the_same_way(codec: Codec) -> None:
    records = [
        Record(n, NOW_MS, None, b"value" * 10, ((directives.PRIORITY, b"9" if n % 500 == 7 else b"1"),))
        for n in range(6000)
    ]
    batch = bytes(batches.build(records, codec=codec))
    code, index, refused = check_both(batch, TOPICS["directives"])
    assert (code, index) == (ErrorCode.INVALID_RECORD, 7)
    assert [index for index, _ in refused] == list(range(7, 6000, 500))
    # What no setting switches on is a header like any other.
    check_both(batch, TOPICS["plain"])


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_a_wrong_count_or_maximum_in_the_header_is_treated_in_the_same_way(codec: Codec) -> None:
    good = large(codec)
    for count in (2999, 3001, 1, intake.RECORDS_MAX + 1):
        assert check_both(with_count(good, count), TOPICS["plain"])[0] is ErrorCode.INVALID_RECORD
    too_many = with_count(good, intake.RECORDS_MAX + 1)
    for name in ("headers only", "uncompressed"):
        topic = dataclasses.replace(TOPICS[name], headwater_record_validation="header")
        assert check_both(too_many, topic) is ErrorCode.MESSAGE_TOO_LARGE
    changed = bytearray(good)
    struct.pack_into(">q", changed, 35, 17)
    assert batches.read_header(check_both(sealed(changed), TOPICS["plain"])).max_timestamp > NOW_MS


@settings(max_examples=150, deadline=None)
@given(
    codec=st.sampled_from([codec for codec in Codec if codec]),
    name=st.sampled_from(sorted(TOPICS)),
    position=st.floats(0, 1, exclude_max=True),
    bits=st.integers(0, 255),
    end=st.floats(0.5, 1) | st.just(1.0),
    inside=st.booleans(),
)
@example(codec=Codec.LZ4, name="plain", position=0.999, bits=255, end=1.0, inside=True)
def test_damaged_batches_get_the_same_answer(
    codec: Codec, name: str, position: float, bits: int, end: float, inside: bool
) -> None:
    """Damage of the compressed bytes, and of the records in them, with a checksum that is right."""
    batch = bytearray(_LARGE[codec] if not inside else _LARGE[Codec.NONE])
    at = 61 + int(position * (len(batch) - 61))
    batch[at] ^= bits
    del batch[61 + int(end * (len(batch) - 61)) :]
    if inside:
        batch = batches.with_payload(batch, compression.compress(codec, batch[61:]), codec)
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    inline = outcome(sealed(batch), TOPICS[name], in_thread=False)
    try:
        in_thread = outcome(sealed(batch), TOPICS[name], in_thread=True)
    except pytest.fail.Exception:
        return
    if isinstance(inline, tuple) and isinstance(inline[0], ErrorCode):
        # Which of several faults comes first may differ.
        assert in_thread[0] if isinstance(in_thread, tuple) else in_thread in _REFUSALS
    else:
        assert in_thread == inline


_LARGE = {codec: large(codec, count=400) for codec in Codec}
_REFUSALS = {ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP, ErrorCode.CORRUPT_MESSAGE}
