"""A produced batch with delayed records in two: what enters the target now, and what is to be scheduled.

The batch that enters keeps its sequences and its range of offsets. Those of delayed records are left out, as compaction
leaves gaps; where all are delayed, it is a batch without records.
"""

from headwater.broker.writes import intake
from headwater.config.topic import TopicConfig
from headwater.coordination.schedule.commands import ScheduleItem
from headwater.coordination.schedule.events import Contents
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches import compression, directives, records
from headwater.protocol.batches.batch import NO_TIMESTAMP, BatchHeader, Buffer
from headwater.protocol.batches.compression import Codec
from headwater.protocol.batches.directives import DELAY_MS, DELIVER_AT, Directives, Heeded
from headwater.protocol.batches.invalid_record import refusal_of_each
from headwater.protocol.batches.records import Record

_DELAY_ONLY = Heeded(delay=True, priority=False, ttl=False)


class Splitter:
    """Takes the records of a batch apart, one part of its payload after the other."""

    def __init__(self, header: BatchHeader, topic: TopicConfig, now_ms: int) -> None:
        self._header = header
        self._topic = topic
        self._now_ms = now_ms
        self._rest: list[bytearray] = []
        self._rest_count = 0
        self._rest_timestamp = NO_TIMESTAMP
        self._items: list[ScheduleItem] = []
        self._too_far: list[tuple[int, str]] = []

    def take(self, payload: Buffer, count: int) -> None:
        """The next `count` records, whose directives are valid."""
        rest: list[Record] = []
        base_timestamp = self._header.base_timestamp
        for record in records.decode(payload, count, 0, base_timestamp):
            asked = directives.read(record.headers, _DELAY_ONLY) if record.headers else None
            if asked is None or not self._is_delayed(record, asked):
                rest.append(record)
                self._rest_timestamp = max(self._rest_timestamp, record.timestamp)
        self._rest.append(records.encode(rest, 0, base_timestamp))
        self._rest_count += len(rest)

    def _is_delayed(self, record: Record, asked: Directives) -> bool:
        if asked.delay_ms is not None:
            delay_ms = asked.delay_ms
        elif asked.deliver_at_ms is not None:
            delay_ms = asked.deliver_at_ms - self._now_ms
        else:
            return False
        if delay_ms <= 0:
            return False
        delay_max_ms = self._topic.headwater_delay_max_ms
        if delay_ms > delay_max_ms:
            fault = f"is delayed by {delay_ms} ms, the topic takes {delay_max_ms} (headwater.delay.max.ms)"
            self._too_far.append((record.offset, fault))
            return True
        is_after_commit = self._header.is_transactional and asked.delay_ms is not None
        when_ms = delay_ms if is_after_commit else self._now_ms + delay_ms
        self._items.append(ScheduleItem(when_ms, is_after_commit, Contents(asked.schedule_id, _encoded(record))))
        return True

    def split(self, produced: memoryview) -> None:
        """Raises DelayedBatch if records of the batch are delayed, and a refusal if some are by too much."""
        if self._too_far:
            raise refusal_of_each(self._too_far[: intake.refused_max(self._header)])
        if not self._items:
            return
        topic = self._topic
        codec = self._header.codec if topic.stored_codec is None else topic.stored_codec
        rest = b"".join(self._rest)
        if not rest:
            codec = Codec.NONE
        rest = compression.compress(codec, rest, topic.compression_level) if codec else rest
        timestamp = self._rest_timestamp if self._rest_count else self._header.max_timestamp
        batch = batches.with_records(produced, rest, codec, self._rest_count, timestamp)
        raise intake.DelayedBatch(self._header, batch, self._items)


def delivered(contents: Contents, offset: int, due_ms: int) -> Record:
    """The record as it enters the target: at its due time, and with that time in place of a delay. So a copy of it that
    is produced to another topic is not delayed again."""
    (record,) = records.decode(contents.record, 1, 0, 0)
    deliver_at = (DELIVER_AT, b"%d" % due_ms)
    headers = tuple(deliver_at if header[0] in (DELAY_MS, DELIVER_AT) else header for header in record.headers)
    return Record(offset, due_ms, record.key, record.value, headers)


def _encoded(record: Record) -> bytes:
    """As the only record of a payload, whose times and offsets begin at 0."""
    alone = Record(0, record.timestamp, record.key, record.value, record.headers)
    return bytes(records.encode([alone], 0, 0))
