"""The checks of a produced batch before it may enter a log; each fails with the error code that Kafka gives.

Nothing here touches the log: a refused batch leaves no trace.
"""

# Lazy annotations: the types of late imports stand in them.
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from headwater.config.broker import BrokerConfig
from headwater.config.topic import TopicConfig
from headwater.errors import ErrorCode, Refusal
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches import compression, records
from headwater.protocol.batches.batch import HEADER_SIZE, LOG_OVERHEAD, NO_TIMESTAMP, BatchHeader, Buffer
from headwater.protocol.batches.compression import DecompressedTooLarge
from headwater.protocol.batches.invalid_record import InvalidRecord

if TYPE_CHECKING:
    from headwater.coordination.schedule.commands import ScheduleItem
    from headwater.protocol.batches.directives import Heeded

# Two compressed kilobytes can hold millions of empty records, and each becomes an object of a hundred bytes in code
# that reads records one by one: lookups by time, compaction, consumers. No honest batch comes near this bound.
RECORDS_MAX = 1_000_000

# So many records of a refused batch are named at least, and one more for each 16 bytes of it: any batch of some size
# that is not compressed has all of them named, and the answer to a compressed one stays in proportion to the request.
_REFUSED_RECORDS_MIN = 16
_BYTES_PER_REFUSED_RECORD = 16


class LargeBatch(Exception):
    """Raised instead of admitting a batch whose checks would keep the event loop for too long: `large_batch.check` does
    them in a thread. Its header and its checksum are good."""


class DelayedBatch(Exception):
    """Raised instead of admitting a batch with records that are to be delivered later, which has passed all checks."""

    def __init__(self, header: BatchHeader, rest: bytearray, items: Sequence[ScheduleItem]) -> None:
        super().__init__("records are to be scheduled")
        # As it was produced.
        self.header = header
        # What enters the partition now, under the same sequences.
        self.rest = rest
        self.items = items

    def raise_again(
        self, _produced: memoryview, _topic: TopicConfig, _broker: BrokerConfig, _now_ms: int
    ) -> tuple[BatchHeader, memoryview]:
        """As `admit`, where the batch was split before."""
        raise self


# Gives the batch to append, and its header.
Admit: TypeAlias = Callable[[memoryview, TopicConfig, BrokerConfig, int], tuple[BatchHeader, memoryview]]


def admit(
    produced: memoryview, topic: TopicConfig, broker: BrokerConfig, now_ms: int
) -> tuple[BatchHeader, memoryview]:
    """Check one partition's records of a produce request. Gives the batch to append: the same bytes, patched in place
    if the topic asks for it, or new bytes if the topic stores another compression."""
    header = batches.read_header(produced)
    size = len(produced)
    if header.batch_length + LOG_OVERHEAD != size:
        _refuse_size(produced, header)
    if size > topic.max_message_bytes:
        raise too_large(size, topic)
    batches.verify_produced(produced, header)
    sent, codec = header.codec, topic.stored_codec
    if codec is not None and codec != sent and size > broker.headwater_batch_inline_bytes_max:
        raise LargeBatch
    earliest, latest = now_ms - topic.timestamp_before_max_ms, now_ms + topic.timestamp_after_max_ms
    payload: Buffer | None = None
    if topic.reads_records:
        payload = _decompressed(produced, sent, broker) if sent else produced[HEADER_SIZE:]
        try:
            greatest = records.validate(
                payload,
                header.record_count,
                keys_required=topic.is_compacted,
                base_timestamp=header.base_timestamp,
                timestamp_min=earliest,
                timestamp_max=latest,
            )
        except InvalidRecord as refusal:
            raise _refusal_of_all(payload, header, topic, earliest, latest) or refusal from None
        if greatest != header.max_timestamp:
            # Lookups by time rely on the header's maximum, so a client's wrong one is corrected.
            batches.set_max_timestamp(produced, greatest)
            header = batches.read_header(produced)
    else:
        check_timestamps(header, earliest, latest)
    if header.record_count > RECORDS_MAX:
        check_record_count(header)
    if topic.has_directives and payload is not None:
        check_directives(payload, header, topic)
        if topic.headwater_delay_enable:
            split_delayed(produced, payload, header, topic, now_ms)
    if codec is not None and codec != sent:
        if payload is None:
            payload = _decompressed(produced, sent, broker) if sent else produced[HEADER_SIZE:]
        if codec:
            payload = compression.compress(codec, payload, topic.compression_level)
        produced = memoryview(batches.with_payload(produced, payload, codec))
        header = batches.read_header(produced)
        if header.size > topic.max_message_bytes:
            raise too_large(header.size, topic)
    if topic.is_log_append_time:
        batches.set_log_append_time(produced, now_ms)
        header = batches.read_header(produced)
    return header, produced


def admit_checked(
    checked: memoryview, topic: TopicConfig, _broker: BrokerConfig, now_ms: int
) -> tuple[BatchHeader, memoryview]:
    """As `admit`, for what `large_batch.check` gave."""
    if topic.is_log_append_time:
        # Not before: batches that were admitted meanwhile have earlier times.
        batches.set_log_append_time(checked, now_ms)
    return batches.read_header(checked), checked


def check_directives(payload: Buffer, header: BatchHeader, topic: TopicConfig) -> None:
    """Refuse records that ask for what the topic heeds and cannot grant."""
    # Late import: few topics heed any directives.
    from headwater.protocol.batches import directives  # noqa: PLC0415

    found = directives.faults(payload, header.record_count, heeded_by(topic), refused_max(header))
    if found:
        raise directives.refusal(found)


def split_delayed(produced: memoryview, payload: Buffer, header: BatchHeader, topic: TopicConfig, now_ms: int) -> None:
    """Raise DelayedBatch if records are to be delivered later."""
    # Late import: few topics take delayed records.
    from headwater.broker.schedule.split import Splitter  # noqa: PLC0415
    from headwater.protocol.batches import directives  # noqa: PLC0415

    if directives.named_in(payload):
        splitter = Splitter(header, topic, now_ms)
        splitter.take(payload, header.record_count)
        splitter.split(produced)


def heeded_by(topic: TopicConfig) -> Heeded:
    from headwater.protocol.batches.directives import Heeded  # noqa: PLC0415

    return Heeded(topic.headwater_delay_enable, topic.headwater_priority_enable, topic.headwater_ttl_enable)


def timestamp_limits(topic: TopicConfig, now_ms: int) -> tuple[int, int]:
    return now_ms - topic.timestamp_before_max_ms, now_ms + topic.timestamp_after_max_ms


def check_record_count(header: BatchHeader) -> None:
    if header.record_count > RECORDS_MAX:
        # Kafka's clients answer this code by splitting the batch.
        raise Refusal(
            ErrorCode.MESSAGE_TOO_LARGE, f"the batch has {header.record_count} records, at most {RECORDS_MAX} are taken"
        )


def refused_max(header: BatchHeader) -> int:
    """How many records of a refused batch are named."""
    return _REFUSED_RECORDS_MIN + header.size // _BYTES_PER_REFUSED_RECORD


def _decompressed(produced: memoryview, codec: int, broker: BrokerConfig) -> Buffer:
    """The records of a small batch. Its size says little about theirs: no more is decompressed than is worth trying."""
    bytes_max = broker.headwater_batch_inline_bytes_max
    if len(produced) > bytes_max:
        raise LargeBatch
    if bytes_max > broker.headwater_batch_decompressed_bytes_max:
        return compression.decompress(codec, produced[HEADER_SIZE:], broker.headwater_batch_decompressed_bytes_max)
    try:
        return compression.decompress(codec, produced[HEADER_SIZE:], bytes_max)
    except DecompressedTooLarge:
        raise LargeBatch from None


def _refusal_of_all(
    payload: Buffer, header: BatchHeader, topic: TopicConfig, earliest: int, latest: int
) -> InvalidRecord | None:
    """Names every record that the topic does not take, not only the first, so that no client blames an innocent one
    (KIP-467)."""
    return records.refuse(
        payload, header.record_count, topic.is_compacted, header.base_timestamp, earliest, latest, refused_max(header)
    )


def too_large(size: int, topic: TopicConfig) -> Refusal:
    return Refusal(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"the batch has {size} bytes, the topic takes {topic.max_message_bytes} (max.message.bytes)",
    )


def _refuse_size(produced: memoryview, header: BatchHeader) -> None:
    if HEADER_SIZE <= header.size < len(produced):
        raise Refusal(
            ErrorCode.INVALID_RECORD, "a produce request must hold exactly one record batch for each partition"
        )
    batches.verify(produced, header)


def check_timestamps(header: BatchHeader, earliest: int, latest: int) -> None:
    """Check the header's base and max timestamps in place of the records': the first record's and the latest."""
    for timestamp in (header.base_timestamp, header.max_timestamp):
        if not earliest <= timestamp <= latest and timestamp != NO_TIMESTAMP:
            raise Refusal(
                ErrorCode.INVALID_TIMESTAMP,
                f"timestamp {timestamp} is outside [{earliest}, {latest}] "
                "(message.timestamp.before.max.ms, message.timestamp.after.max.ms)",
            )


def misplaced(header: BatchHeader) -> Refusal:
    """Why a batch of this kind cannot come with its request. The error codes are Kafka's."""
    if header.is_transactional:
        return Refusal(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "the batch is transactional, and its request names no transactional id",
        )
    return Refusal(
        ErrorCode.INVALID_TXN_STATE, "the request names a transactional id, and its batch is in no transaction"
    )
