"""Decompression bombs in every codec: where the broker decompresses, and where our client does."""

import struct
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path

import cramjam
import pytest

from headwater.client.cluster import Cluster
from headwater.client.consumer import Consumer
from headwater.client.errors import ClientError
from headwater.errors import ErrorCode
from headwater.ids import TopicName, TopicPartition
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches import compression
from headwater.protocol.batches.compression import Codec
from tests.faults.hostile.watching import MIB, Bystander, watched
from tests.support.kafka.raw_client import NOW_MS, RawClient, batch_of

LIMIT = 4 * MIB
BOMB_BYTES = 64 * MIB
SETTINGS = {"headwater.batch.decompressed.bytes.max": str(LIMIT), "message.max.bytes": str(16 * MIB)}

# Every reason for the broker to decompress a batch.
LOOKED_INTO: Mapping[str, Mapping[str, str]] = {
    "validated": {},
    "compacted": {"cleanup_policy": "compact"},
    "stamped": {"message_timestamp_type": "LogAppendTime"},
    "compressed": {"compression_type": "gzip"},
    "uncompressed": {"compression_type": "uncompressed", "headwater_record_validation": "header"},
}


def _raw_snappy(content: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(content))


PACKERS: Mapping[str, tuple[Codec, Callable[[bytes], bytes]]] = {
    "gzip": (Codec.GZIP, lambda content: compression.compress(Codec.GZIP, content)),
    "snappy xerial": (Codec.SNAPPY, lambda content: compression.compress(Codec.SNAPPY, content)),
    "snappy raw": (Codec.SNAPPY, _raw_snappy),
    "lz4": (Codec.LZ4, lambda content: compression.compress(Codec.LZ4, content)),
    "zstd": (Codec.ZSTD, lambda content: compression.compress(Codec.ZSTD, content)),
}


def packed(name: str, size: int) -> bytes:
    """A compressed batch with one record of that many bytes."""
    codec, pack = PACKERS[name]
    plain = batch_of(bytes(size))
    return bytes(batches.with_payload(plain, pack(plain[batches.HEADER_SIZE :]), codec))


def crowd(count: int) -> bytes:
    """This many empty records at the same offset, which compress to two bytes per three thousand."""
    head = bytearray(batch_of(b""))
    struct.pack_into(">i", head, 57, count)
    struct.pack_into(">i", head, 23, count - 1)
    stored = compression.compress(Codec.ZSTD, b"\x0c\x00\x00\x00\x01\x01\x00" * count)
    return bytes(batches.with_payload(bytes(head), stored, Codec.ZSTD))


def test_a_bomb_costs_the_broker_no_more_than_the_decompression_limit(tmp_path: Path) -> None:
    with watched(tmp_path, SETTINGS) as broker, Bystander(broker) as bystander, RawClient(broker) as client:
        for topic, config in LOOKED_INTO.items():
            client.create(topic, 1, **config)
        honest = {name: packed(name, LIMIT - 1000) for name in PACKERS}
        bombs = {name: packed(name, BOMB_BYTES) for name in PACKERS}
        for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
            # The library of each codec takes memory of its own.
            client.produce("validated", batch_of(b"v", codec=codec))
        before = broker.memory_bytes()
        broker.forget_memory_peak()
        for topic in LOOKED_INTO:
            end = client.offset(topic)
            for name, bomb in bombs.items():
                assert client.produce(topic, bomb).error_code == ErrorCode.MESSAGE_TOO_LARGE, (topic, name)
            assert client.offset(topic) == end, "a bomb was stored"
            for name, batch in honest.items():
                assert client.produce(topic, batch).error_code == ErrorCode.NONE, (topic, name)
        bystander.check()
        # The received bytes, the decompressed pieces and their concatenation, and the recompressed batch.
        assert broker.memory_peak_bytes() - before < 8 * LIMIT


def test_a_bomb_stored_unopened_costs_our_client_no_more_than_its_limit(tmp_path: Path) -> None:
    with watched(tmp_path, SETTINGS) as broker, Cluster(broker.bootstrap_servers) as cluster:
        with RawClient(broker) as client:
            client.create("unseen", headwater_record_validation="header")
            for offset, name in enumerate(PACKERS):
                assert client.produce("unseen", packed(name, BOMB_BYTES)).base_offset == offset
        place = TopicPartition(TopicName("unseen"), 0)
        for offset in range(len(PACKERS)):
            consumer = Consumer(cluster, {place: offset}, partition_bytes_max=1, decompressed_bytes_max=LIMIT)
            (fetched, *_) = consumer.fetch_batches()
            tracemalloc.start()
            try:
                with pytest.raises(ClientError, match=f"at offset {offset}: .* more than the limit of {LIMIT}"):
                    consumer.read(fetched)
                assert tracemalloc.get_traced_memory()[1] < 4 * LIMIT
            finally:
                tracemalloc.stop()


@pytest.mark.parametrize(
    ("validation", "code"), [("full", ErrorCode.INVALID_RECORD), ("header", ErrorCode.MESSAGE_TOO_LARGE)]
)
def test_a_few_bytes_do_not_become_millions_of_records(tmp_path: Path, validation: str, code: ErrorCode) -> None:
    """Each is an object wherever records are read one by one, such as in a lookup by time."""
    with watched(tmp_path) as broker, Bystander(broker), RawClient(broker) as client:
        client.create("crowded", headwater_record_validation=validation)
        client.produce("crowded", batch_of(b"v", codec=Codec.ZSTD))
        before = broker.memory_bytes()
        broker.forget_memory_peak()
        assert client.produce("crowded", crowd(3_000_000)).error_code == code
        assert client.look_up("crowded", NOW_MS).offset == 0
        assert broker.memory_peak_bytes() - before < 64 * MIB
