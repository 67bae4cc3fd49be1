"""Records that a client of HTTP writes: to the partitions of their keys, in batches that the topic takes."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from headwater.broker.access.guard import Guard
from headwater.broker.broker import Broker
from headwater.broker.partition import Partition
from headwater.broker.pending import Pending
from headwater.broker.topics import Topic
from headwater.broker.writes.intake import heeded_by
from headwater.broker.writes.journal import Append
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.protocol.batches import directives
from headwater.protocol.batches.records import Headers, Record
from headwater.protocol.partitioner import partition_for_key

# What a record takes in a batch beside its key, value and headers, and a batch beside its records.
_RECORD_OVERHEAD_BYTES = 48
_HEADER_OVERHEAD_BYTES = 12
_BATCH_OVERHEAD_BYTES = 256
_unkeyed = itertools.count()
# The settings of a topic that have it heed directives.
_SETTINGS: Final = {
    **dict.fromkeys((directives.DELAY_MS, directives.DELIVER_AT, directives.SCHEDULE_ID), "headwater.delay.enable"),
    directives.PRIORITY: "headwater.priority.enable",
    directives.TTL_MS: "headwater.ttl.enable",
}


class NewRecord(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    # None: by the key, or any.
    partition: int | None = None
    # In ms since 1970; None: now.
    timestamp_ms: int | None = None
    # Those of its headers that the topic must heed.
    directives: Sequence[str] = ()

    @property
    def size_bytes(self) -> int:
        headers = sum(len(name) + len(value or b"") + _HEADER_OVERHEAD_BYTES for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers + _RECORD_OVERHEAD_BYTES


class Written(NamedTuple):
    """What became of one record."""

    partition: int
    # -1 with an error.
    offset: int
    timestamp_ms: int
    error: HeadwaterError | None = None


def writable_topic(broker: Broker, guard: Guard, name: str) -> Topic:
    """Raises a Refusal, which does not tell a client without rights whether the topic exists."""
    if not guard.writes(name):
        raise Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"no right to write topic '{name}'")
    return broker.topics.existing(name)


async def write(broker: Broker, guard: Guard, topic_name: str, records: Sequence[NewRecord]) -> list[Written]:
    """The outcome of each record, in their order, once they are on disk. Refuses what concerns all of them."""
    topic = writable_topic(broker, guard, topic_name)
    now_ms = broker.clock.now_ms()
    placed = place(topic, records)
    check_heeded(broker.partition(topic.name, 0), records)
    batches: list[tuple[Sequence[int], Pending[Append], Sequence[Record]]] = []
    for index, positions in placed.items():
        partition = broker.online_partition(topic.name, index)
        for chunk in chunks(partition, positions, records):
            built = [as_record(number, records[position], now_ms) for number, position in enumerate(chunk)]
            batches.append((chunk, broker.append(partition, built), built))
    written: list[Written | None] = [None] * len(records)
    partition_of = {position: index for index, positions in placed.items() for position in positions}
    for chunk, pending, built in batches:
        append = await pending.wait()
        for number, position in enumerate(chunk):
            offset = -1 if append.error is not None else append.base_offset + number
            timestamp_ms = built[number].timestamp if append.log_append_time_ms < 0 else append.log_append_time_ms
            written[position] = Written(partition_of[position], offset, timestamp_ms, append.error)
    return [each for each in written if each is not None]


def check_heeded(partition: Partition, records: Iterable[NewRecord]) -> None:
    """Refuse what the topic would take for a header like any other: a record that is to appear later must not appear
    at once."""
    heeded = heeded_by(partition.config)
    for record in records:
        for name in record.directives:
            if not directives.is_heeded(name, heeded):
                message = f"topic '{partition.id.topic}' does not heed {name} ({_SETTINGS[name]})"
                raise Refusal(ErrorCode.INVALID_REQUEST, message)


def place(topic: Topic, records: Sequence[NewRecord]) -> dict[int, list[int]]:
    """The positions of the records by their partition. Records without key and partition stay together."""
    count = topic.partition_count
    any_partition = next(_unkeyed) % count
    placed: dict[int, list[int]] = {}
    for position, record in enumerate(records):
        index = record.partition
        if index is None:
            index = any_partition if record.key is None else partition_for_key(record.key, count)
        elif not 0 <= index < count:
            message = f"topic '{topic.name}' has no partition {index}, only {count}"
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
        placed.setdefault(index, []).append(position)
    return placed


def chunks(partition: Partition, positions: Sequence[int], records: Sequence[NewRecord]) -> Iterator[Sequence[int]]:
    bytes_max = partition.config.max_message_bytes - _BATCH_OVERHEAD_BYTES
    chunk: list[int] = []
    size = 0
    for position in positions:
        added = records[position].size_bytes
        if chunk and size + added > bytes_max:
            yield chunk
            chunk, size = [], 0
        chunk.append(position)
        size += added
    if chunk:
        yield chunk


def as_record(number: int, record: NewRecord, now_ms: int) -> Record:
    timestamp_ms = now_ms if record.timestamp_ms is None else record.timestamp_ms
    return Record(number, timestamp_ms, record.key, record.value, record.headers)
