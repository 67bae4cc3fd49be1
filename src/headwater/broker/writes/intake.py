"""The checks of a produced batch before it may enter a log; each fails with the error code that Kafka gives.

Nothing here touches the log: a refused batch leaves no trace.
"""

from headwater.config.broker import BrokerConfig
from headwater.config.topic import TopicConfig
from headwater.errors import ErrorCode, Refusal
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches import compression, records
from headwater.protocol.batches.batch import HEADER_SIZE, LOG_OVERHEAD, NO_TIMESTAMP, BatchHeader, Buffer
from headwater.protocol.batches.records import InvalidRecord

# Two compressed kilobytes can hold millions of empty records, and each becomes an object of a hundred bytes in code
# that reads records one by one: lookups by time, compaction, consumers. No honest batch comes near this bound.
RECORDS_MAX = 1_000_000

# So many records of a refused batch are named at least, and one more for each 16 bytes of it: any batch of some size
# that is not compressed has all of them named, and the answer to a compressed one stays in proportion to the request.
_REFUSED_RECORDS_MIN = 16
_BYTES_PER_REFUSED_RECORD = 16


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
        raise _too_large(size, topic)
    batches.verify(produced, header)
    batches.verify_produced(header)
    earliest, latest = now_ms - topic.timestamp_before_max_ms, now_ms + topic.timestamp_after_max_ms
    if topic.is_compacted or topic.headwater_record_validation == "full":
        payload = batches.payload(produced, header, broker.headwater_batch_decompressed_bytes_max)
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
        _verify_timestamps(header, earliest, latest)
    if header.record_count > RECORDS_MAX:
        # Kafka's clients answer this code by splitting the batch.
        raise Refusal(
            ErrorCode.MESSAGE_TOO_LARGE, f"the batch has {header.record_count} records, at most {RECORDS_MAX} are taken"
        )
    if topic.is_log_append_time:
        batches.set_log_append_time(produced, now_ms)
        header = batches.read_header(produced)
    codec = topic.stored_codec
    if codec is not None and codec != header.codec:
        produced = _recompress(produced, header, codec, topic, broker)
        header = batches.read_header(produced)
        if header.size > topic.max_message_bytes:
            raise _too_large(header.size, topic)
    return header, produced


def _refusal_of_all(
    payload: Buffer, header: BatchHeader, topic: TopicConfig, earliest: int, latest: int
) -> InvalidRecord | None:
    """Names every record that the topic does not take, not only the first, so that no client blames an innocent one
    (KIP-467)."""
    refused_max = _REFUSED_RECORDS_MIN + header.size // _BYTES_PER_REFUSED_RECORD
    return records.refuse(
        payload, header.record_count, topic.is_compacted, header.base_timestamp, earliest, latest, refused_max
    )


def _too_large(size: int, topic: TopicConfig) -> Refusal:
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


def _verify_timestamps(header: BatchHeader, earliest: int, latest: int) -> None:
    """Check the header's base and max timestamps in place of the records': the first record's and the latest."""
    for timestamp in (header.base_timestamp, header.max_timestamp):
        if not earliest <= timestamp <= latest and timestamp != NO_TIMESTAMP:
            raise Refusal(
                ErrorCode.INVALID_TIMESTAMP,
                f"timestamp {timestamp} is outside [{earliest}, {latest}] "
                "(message.timestamp.before.max.ms, message.timestamp.after.max.ms)",
            )


def _recompress(
    produced: memoryview, header: BatchHeader, codec: int, topic: TopicConfig, broker: BrokerConfig
) -> memoryview:
    payload = batches.payload(produced, header, broker.headwater_batch_decompressed_bytes_max)
    if codec:
        payload = compression.compress(codec, payload, topic.compression_level)
    return memoryview(batches.with_payload(produced, payload, codec))
