"""Which produced batches may enter a log, and in which form."""

import dataclasses
from typing import Any

import pytest

from headwater.broker.writes import intake
from headwater.config.broker import BrokerConfig
from headwater.config.topic import TopicConfig
from headwater.errors import ErrorCode, HeadwaterError
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.compression import Codec
from headwater.protocol.batches.records import Record
from tests.support.broker.embedded_broker import NOW_MS, batch_of

BROKER = BrokerConfig()


def topic(**changes: Any) -> TopicConfig:
    return dataclasses.replace(TopicConfig(), **changes)


def admit(
    batch: bytes, config: TopicConfig | None = None, broker: BrokerConfig = BROKER
) -> tuple[batches.BatchHeader, bytes]:
    header, admitted = intake.admit(memoryview(bytearray(batch)), config or topic(), broker, NOW_MS)
    batches.verify(admitted, header)
    return header, bytes(admitted)


def refusal(batch: bytes, config: TopicConfig, broker: BrokerConfig = BROKER) -> ErrorCode:
    with pytest.raises(HeadwaterError) as refused:
        admit(batch, config, broker)
    return refused.value.code


def values(batch: bytes) -> list[bytes | None]:
    return [record.value for record in batches.read_records(batch, batches.read_header(batch), 1 << 20)]


def test_a_good_batch_is_admitted_byte_for_byte() -> None:
    batch = batch_of(b"a", None, b"", codec=Codec.LZ4)
    assert admit(batch)[1] == batch


@pytest.mark.parametrize("sent", Codec)
@pytest.mark.parametrize(("kept", "codec"), [("uncompressed", 0), ("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4)])
def test_a_topic_stores_records_in_its_own_compression(sent: Codec, kept: str, codec: int) -> None:
    original = batch_of(b"a" * 500, None, b"", codec=sent, producer_id=5, producer_epoch=1, base_sequence=9)
    header, admitted = admit(original, topic(compression_type=kept))

    assert header.codec == codec
    assert values(admitted) == [b"a" * 500, None, b""]
    assert (header.producer_id, header.base_sequence, header.record_count) == (5, 9, 3)
    if sent == codec:
        assert admitted == original


def test_log_append_time_replaces_the_timestamps_of_the_producer() -> None:
    header, admitted = admit(batch_of(b"v", timestamp=2**50), topic(message_timestamp_type="LogAppendTime"))

    assert (header.is_log_append_time, header.max_timestamp) == (True, NOW_MS)
    (record,) = batches.read_records(admitted, header, 1 << 20)
    assert record.timestamp == NOW_MS


@pytest.mark.parametrize("validation", ["full", "header"])
@pytest.mark.parametrize(
    ("timestamp", "limits", "accepted"),
    [
        (NOW_MS + 3_600_000, {}, True),
        (NOW_MS + 3_600_001, {}, False),
        (0, {}, True),
        (-1, {"message_timestamp_before_max_ms": 0, "message_timestamp_after_max_ms": 0}, True),
        (NOW_MS - 10, {"message_timestamp_before_max_ms": 10}, True),
        (NOW_MS - 11, {"message_timestamp_before_max_ms": 10}, False),
        (2**55, {"message_timestamp_after_max_ms": 2**63 - 1}, True),
    ],
)
def test_timestamps_outside_the_limits_are_refused(
    validation: str, timestamp: int, limits: dict[str, int], accepted: bool
) -> None:
    config = topic(headwater_record_validation=validation, **limits)
    batch = batch_of(b"v", timestamp=timestamp)
    if accepted:
        assert admit(batch, config)[1] == batch
    else:
        assert refusal(batch, config) is ErrorCode.INVALID_TIMESTAMP


def test_a_bad_timestamp_between_good_ones_is_found() -> None:
    times = (NOW_MS, NOW_MS + 10**9, NOW_MS)
    batch = bytes(batches.build([Record(n, time, None, b"v") for n, time in enumerate(times)], max_timestamp=NOW_MS))
    assert refusal(batch, topic()) is ErrorCode.INVALID_TIMESTAMP


def test_a_wrong_max_timestamp_is_corrected() -> None:
    records = [Record(0, NOW_MS - 5, None, b"a"), Record(1, NOW_MS, None, b"b")]
    for claimed in (NOW_MS - 5, NOW_MS + 1000, -1):
        header, admitted = admit(bytes(batches.build(records, max_timestamp=claimed)))
        assert header.max_timestamp == NOW_MS
        assert values(admitted) == [b"a", b"b"]


def test_records_are_validated_only_as_far_as_the_topic_asks() -> None:
    good = batch_of(b"v", b"w")
    lying = bytes(batches.with_payload(good, b"\xff" * 20, Codec.NONE))

    assert refusal(lying, topic()) is ErrorCode.INVALID_RECORD
    assert admit(lying, topic(headwater_record_validation="header"))[1] == lying
    compacted = topic(headwater_record_validation="header", cleanup_policy=frozenset({"compact"}))
    assert refusal(lying, compacted) is ErrorCode.INVALID_RECORD


def test_max_message_bytes_bounds_a_batch_as_sent_and_as_stored() -> None:
    batch = batch_of(bytes(10_000), codec=Codec.ZSTD)
    assert len(batch) < 200
    assert admit(batch, topic(max_message_bytes=len(batch)))[1] == batch
    assert refusal(batch, topic(max_message_bytes=len(batch) - 1)) is ErrorCode.MESSAGE_TOO_LARGE
    assert refusal(batch, topic(max_message_bytes=5000, compression_type="uncompressed")) is ErrorCode.MESSAGE_TOO_LARGE


def test_the_decompressed_size_is_bounded_also_for_recompressed_batches() -> None:
    small = BrokerConfig.from_values({"headwater.batch.decompressed.bytes.max": "1024"})
    batch = batch_of(bytes(10_000), codec=Codec.ZSTD)
    for config in (topic(), topic(headwater_record_validation="header", compression_type="gzip")):
        assert refusal(batch, config, small) is ErrorCode.MESSAGE_TOO_LARGE
