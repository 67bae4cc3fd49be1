"""The log of a machine of schedules: its events as records of `__headwater_schedule`.

An entry is named by its offset, so the machine says at which offset each event begins, and this log makes sure of it.
Contents of entries lie in small batches, so that a single one is read at little cost. Entries of a transaction are
transactional batches, and a control batch ends the transaction, as in `__consumer_offsets`.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from headwater.broker.partition import Partition
from headwater.broker.shards.state_log import StateLog
from headwater.broker.writes.journal import Append
from headwater.coordination.schedule.events import (
    DeliveryBegun,
    Done,
    DurableEvent,
    Entry,
    LogEnd,
    Moved,
    Scheduled,
    TargetForgotten,
    TransactionEnded,
)
from headwater.coordination.schedule.terms import NO_ID_HASH, ProducedBatch, Target, hash_of_id
from headwater.errors import ErrorCode, HeadwaterError, ProtocolError, Refusal
from headwater.ids import TopicId
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.batch import BatchHeader, Marker
from headwater.protocol.batches.records import Record
from headwater.protocol.stored import schedule as stored

# A batch of entries ends when it has so many, or so many bytes.
ENTRIES_PER_BATCH: Final = 64
_BATCH_BYTES: Final = 16 << 10
_RECORDS_PER_BATCH_MAX: Final = 10_000
# Tombstones of entries that were withdrawn have it, and those of entries that were delivered or cancelled do not.
_WITHDRAWN: Final = (("withdrawn", b""),)


class DamagedSchedule(HeadwaterError):
    """Schedules are not loaded from records that cannot be read: what is scheduled would be lost, or come twice."""


class _Batch(NamedTuple):
    records: list[Record]
    producer: ProducedBatch | None = None


class _Unused:
    """Takes the place of a format: this log translates whole events."""

    def encode(self, event: object) -> tuple[bytes, bytes | None]:
        raise NotImplementedError

    def decode(self, key: bytes, value: bytes | None) -> None:
        raise NotImplementedError


class ScheduleLog(StateLog[object]):
    def __init__(self, partition: Partition) -> None:
        super().__init__(partition, _Unused())
        # Producer epochs of the next append, which the partition does not know yet.
        self._epochs: dict[int, int] = {}

    # -- reading

    def replay(self, read_bytes: int) -> Iterator[list[object]]:
        yield from super().replay(read_bytes)
        yield [LogEnd(self.partition.end_offset)]

    def _events(self, header: BatchHeader, records: Sequence[Record]) -> Iterable[object]:
        try:
            return list(_ends(header, records) if header.is_control else _read(header, records))
        except ProtocolError as error:
            # The checksum was right, so the record was written like this: an operator must find out by which program.
            raise DamagedSchedule(f"a record behind offset {header.base_offset} is not understood: {error}") from error

    # -- writing

    def check(self, events: Sequence[object]) -> None:
        """Fence producers and coordinators that newer ones have replaced."""
        event = events[0] if events else None
        if isinstance(event, Scheduled):
            if not event.is_transactional:
                return
            producer_id, epoch = event.batch.producer_id, event.batch.producer_epoch
        elif isinstance(event, TransactionEnded):
            producer_id, epoch = event.producer_id, event.producer_epoch
        else:
            return
        state = self.partition.producer(producer_id)
        newest = max(epoch if state is None else state.producer_epoch, self._epochs.get(producer_id, epoch))
        if epoch < newest:
            raise Refusal(
                ErrorCode.INVALID_PRODUCER_EPOCH, f"producer {producer_id} has epoch {newest}, the request {epoch}"
            )
        if isinstance(event, TransactionEnded):
            self.partition.check_marker(producer_id, epoch, _marker(event), event.transaction_version)
        self._epochs[producer_id] = epoch

    def append(self, events: Sequence[object], append: Append, now_ms: int) -> None:
        """Write as few batches as their kinds allow. They are written together and flushed in order, and an error in
        one also fails those after it: so `append` stands for all of them, although it completes with the last."""
        self._epochs.clear()
        durable: Sequence[DurableEvent] = events  # pyright: ignore[reportAssignmentType] (volatile ones are left out)
        if durable[0].offset != self.partition.end_offset:
            raise AssertionError(f"{self.partition.id} ends at {self.partition.end_offset}, not {durable[0].offset}")
        parts = list(_batches(durable, now_ms))
        last = len(parts) - 1
        for number, part in enumerate(parts):
            completed = append if number == last else Append(_ignore)
            if isinstance(part, TransactionEnded):
                marker = _marker(part)
                self.partition.stage_marker(part.producer_id, part.producer_epoch, marker, completed, part.ended_ms)
            elif part.producer is None:
                self._stage(_built(part.records), completed, now_ms)
            else:
                built = batches.build(
                    part.records,
                    base_offset=part.records[0].offset,
                    producer_id=part.producer.producer_id,
                    producer_epoch=part.producer.producer_epoch,
                    transactional=True,
                )
                self._stage(built, completed, now_ms)


def _built(records: Sequence[Record]) -> bytearray:
    return batches.build(records, base_offset=records[0].offset)


def _batches(events: Sequence[DurableEvent], now_ms: int) -> Iterator[_Batch | TransactionEnded]:
    """In the order of the offsets."""
    plain: list[Record] = []
    for event in events:
        if isinstance(event, Scheduled):
            if plain:
                yield _Batch(plain)
                plain = []
            producer = event.batch if event.is_transactional else None
            for records in _in_small_batches(_entry_records(event, now_ms)):
                yield _Batch(records, producer)
        elif isinstance(event, TransactionEnded):
            if plain:
                yield _Batch(plain)
                plain = []
            yield event
        else:
            plain += _other_records(event, now_ms)
            if len(plain) >= _RECORDS_PER_BATCH_MAX:
                yield _Batch(plain)
                plain = []
    if plain:
        yield _Batch(plain)


def _in_small_batches(records: Iterable[Record]) -> Iterator[list[Record]]:
    batch: list[Record] = []
    size = 0
    for record in records:
        batch.append(record)
        size += len(record.value or b"")
        if len(batch) == ENTRIES_PER_BATCH or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _entry_records(event: Scheduled, now_ms: int) -> Iterator[Record]:
    topic_id, partition = event.target
    for entry, contents in zip(event.entries, event.contents, strict=True):
        value = stored.write_entry(
            stored.StoredEntry(
                entry.is_after_commit,
                *event.batch,
                entry.when_ms,
                (contents.schedule_id or "").encode(),
                contents.record,
            )
        )
        yield Record(entry.offset, now_ms, stored.write_key(stored.ENTRY, topic_id, partition, entry.offset), value)


def _other_records(event: Moved | DeliveryBegun | Done | TargetForgotten, now_ms: int) -> Iterator[Record]:
    topic_id, partition = event.target
    at = event.offset
    match event:
        case Moved():
            value = stored.write_move(event.due_ms)
            for index, offset in enumerate(event.entries):
                yield Record(at + index, now_ms, stored.write_key(stored.MOVE, topic_id, partition, offset), value)
        case DeliveryBegun():
            key = stored.write_key(stored.DELIVERY, topic_id, partition)
            yield Record(at, now_ms, key, stored.write_delivery(event.base_sequence, tuple(event.entries)))
        case Done():
            names = [(stored.ENTRY, offset) for offset in event.entries]
            names += [(stored.MOVE, offset) for offset in event.moved]
            headers = _WITHDRAWN if event.is_withdrawn else ()
            for index, (kind, offset) in enumerate(names):
                yield Record(at + index, now_ms, stored.write_key(kind, topic_id, partition, offset), None, headers)
        case TargetForgotten():
            yield Record(at, now_ms, stored.write_key(stored.DELIVERY, topic_id, partition), None)


def _read(header: BatchHeader, records: Sequence[Record]) -> Iterator[object]:
    """Neighbours that say the same of other entries become one event."""
    entries: list[Entry] = []
    done: list[int] = []
    is_withdrawn = False
    same = b""
    target: Target | None = None
    batch: ProducedBatch | None = None
    for record in records:
        key, value = record.key or b"", record.value
        if not key or key[0] != stored.ENTRY:
            yield from _flush(target, batch, header, entries, done, is_withdrawn)
            entries, done, same = [], [], b""
            yield from _read_other(record, key, value)
            continue
        if value is None:
            begins = key[stored.TARGET_BYTES]
            if entries or begins != same or is_withdrawn is not bool(record.headers):
                yield from _flush(target, batch, header, entries, done, is_withdrawn)
                entries, done, same = [], [], begins
                target, is_withdrawn = _target(key), bool(record.headers)
            done.append(stored.read_key(key).offset)
            continue
        begins = key[stored.TARGET_BYTES] + value[stored.BATCH_BYTES]
        read = stored.read_entry(value)
        if done or begins != same:
            yield from _flush(target, batch, header, entries, done, is_withdrawn)
            entries, done, same = [], [], begins
            target = _target(key)
            batch = ProducedBatch(read.producer_id, read.producer_epoch, read.base_sequence, read.last_sequence)
        id_hash = hash_of_id(read.schedule_id.decode(errors="replace")) if read.schedule_id else NO_ID_HASH
        entries.append(Entry(record.offset, read.when_ms, read.is_after_commit, len(read.record), id_hash))
    yield from _flush(target, batch, header, entries, done, is_withdrawn)


def _flush(
    target: Target | None,
    batch: ProducedBatch | None,
    header: BatchHeader,
    entries: Sequence[Entry],
    done: Sequence[int],
    is_withdrawn: bool,
) -> Iterator[object]:
    if target is not None and batch is not None and entries:
        yield Scheduled(target, batch, header.is_transactional, entries)
    if target is not None and done:
        yield Done(header.base_offset, target, done, is_withdrawn=is_withdrawn)


def _read_other(record: Record, key: bytes, value: bytes | None) -> Iterator[object]:
    read = stored.read_key(key)
    target = Target(TopicId(read.topic_id), read.partition)
    if read.kind == stored.MOVE:
        # The entry of a move without value has gone, too.
        if value is not None:
            yield Moved(record.offset, target, (read.offset,), stored.read_move(value))
    elif read.kind == stored.DELIVERY:
        if value is None:
            yield TargetForgotten(record.offset, target)
        else:
            yield DeliveryBegun(record.offset, target, *stored.read_delivery(value))
    # Any other kind was written by a newer version, which will read it again.


def _target(key: bytes) -> Target:
    read = stored.read_key(key)
    return Target(TopicId(read.topic_id), read.partition)


def _ends(header: BatchHeader, records: Sequence[Record]) -> Iterator[TransactionEnded]:
    for record in records:
        marker = batches.read_marker(record)
        if marker is not None:
            yield TransactionEnded(
                header.base_offset,
                header.producer_id,
                header.producer_epoch,
                marker.coordinator_epoch,
                marker.committed,
                record.timestamp,
            )


def _marker(event: TransactionEnded) -> Marker:
    return Marker(event.is_committed, event.coordinator_epoch)


def _ignore(append: Append) -> None:
    """No command waits for a batch that another one follows."""
    del append
