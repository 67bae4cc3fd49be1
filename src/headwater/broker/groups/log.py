"""The log of a machine of groups: its events as the records of `__consumer_offsets`, byte for byte as in Kafka.

Older versions of the values are read as well, so that a partition which Kafka wrote can be taken over. Each kind of
group has its records in a module of `formats`.

Offsets committed inside a transaction are ordinary records in transactional batches of their producer, and a control
batch ends the transaction. So the partition tracks which transactions are open, and compaction keeps the offsets of
open transactions, drops aborted offsets, and treats committed ones as plain commits.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple, TypeAlias, assert_never

from headwater.broker.groups.formats import classic, consumer, offsets, share
from headwater.broker.groups.formats.record import Read, StoredRecord, Write
from headwater.broker.partition import Partition
from headwater.broker.shards.state_log import StateLog
from headwater.broker.writes.journal import Append
from headwater.coordination.groups.events import Event
from headwater.coordination.groups.offsets.events import (
    OffsetCommitted,
    TransactionalOffsetCommitted,
    TransactionEnded,
    TransactionEvent,
)
from headwater.errors import ErrorCode, HeadwaterError, ProtocolError, Refusal
from headwater.ids import ProducerId
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.batch import BatchHeader, Marker
from headwater.protocol.batches.compression import Codec
from headwater.protocol.batches.records import Record
from headwater.protocol.stored.record import read_record_type

_FORMATS: Final = (offsets, classic, consumer, share)
_WRITERS: Final[Mapping[type, Write]] = {event: write for each in _FORMATS for event, write in each.WRITERS.items()}
_READERS: Final[Mapping[int, Read]] = {number: read for each in _FORMATS for number, read in each.READERS.items()}


class DamagedGroups(HeadwaterError):
    """Groups are not loaded from records that cannot be read: an offset left out would look as if never committed."""


class GroupFormat:
    def encode(self, event: Event) -> StoredRecord:
        """Raises KeyError for TransactionEnded, which is not a record but a control batch."""
        return _WRITERS[type(event)](event)

    def decode(self, key: bytes, value: bytes | None) -> Event | None:
        try:
            read = _READERS.get(read_record_type(key))
            # None for other kinds of groups, for records that Kafka itself no longer reads, and for newer versions.
            return None if read is None else read(key, value)
        except ProtocolError as error:
            # The checksum was right, so the record was written like this: an operator must find out by which program.
            raise DamagedGroups(f"the group record {key[:80]!r} is not understood: {error}") from error


class _Transactional(NamedTuple):
    """A batch of records in a producer's transaction."""

    producer_id: ProducerId
    epoch: int


# What an event shares with its neighbours in one batch. A marker stands alone; None is a plain batch.
_BatchKind: TypeAlias = _Transactional | TransactionEnded | None


class GroupLog(StateLog[Event]):
    def __init__(self, partition: Partition, codec: int = Codec.NONE) -> None:
        super().__init__(partition, GroupFormat(), codec)
        # Producer epochs of the next append, which the partition does not know yet.
        self._epochs: dict[ProducerId, int] = {}

    def check(self, events: Sequence[object]) -> None:
        """Fence producers and coordinators that newer ones have replaced."""
        # The events of one decision either all belong to one transaction, or none of them does.
        event = events[-1] if events else None
        if not isinstance(event, TransactionEvent):
            return
        producer_id, epoch = event.producer_id, event.producer_epoch
        state = self.partition.producer(producer_id)
        newest = max(epoch if state is None else state.producer_epoch, self._epochs.get(producer_id, epoch))
        if epoch < newest:
            raise Refusal(
                ErrorCode.INVALID_PRODUCER_EPOCH, f"producer {producer_id} has epoch {newest}, the request {epoch}"
            )
        if isinstance(event, TransactionEnded):
            self.partition.check_marker(producer_id, epoch, _marker(event), event.transaction_version)
        self._epochs[producer_id] = epoch

    def append(self, events: Sequence[Event], append: Append, now_ms: int) -> None:
        """Write as few batches as the order of the events allows. They are written together and flushed in order, and
        an error in one also fails those after it: so `append` stands for all of them, although it completes with the
        last."""
        self._epochs.clear()
        runs = [(kind, list(run)) for kind, run in groupby(events, _batch_kind)]
        last = len(runs) - 1
        for index, (kind, run) in enumerate(runs):
            self._append_run(kind, run, append if index == last else Append(_ignore), now_ms)

    def _append_run(self, kind: _BatchKind, run: Sequence[Event], append: Append, now_ms: int) -> None:
        match kind:
            case None:
                super().append(run, append, now_ms)
            case _Transactional(producer_id, epoch):
                records = self._records(run, now_ms)
                built = batches.build(
                    records, codec=self._codec, producer_id=producer_id, producer_epoch=epoch, transactional=True
                )
                self._stage(built, append, now_ms)
            case TransactionEnded():
                self.partition.stage_marker(kind.producer_id, kind.producer_epoch, _marker(kind), append, now_ms)
            case _:
                assert_never(kind)

    def _events(self, header: BatchHeader, records: Sequence[Record]) -> Iterable[Event]:
        if header.is_control:
            return _ends(header, records)
        events = super()._events(header, records)
        return _in_transaction(header, events) if header.is_transactional else events


def _ends(header: BatchHeader, records: Sequence[Record]) -> Iterator[Event]:
    for marker in map(batches.read_marker, records):
        if marker is not None:
            producer_id = ProducerId(header.producer_id)
            yield TransactionEnded(producer_id, header.producer_epoch, marker.coordinator_epoch, marker.committed)


def _in_transaction(header: BatchHeader, events: Iterable[Event]) -> Iterator[Event]:
    for event in events:
        if isinstance(event, OffsetCommitted):
            yield TransactionalOffsetCommitted(ProducerId(header.producer_id), header.producer_epoch, *event)
        else:
            yield event


def _batch_kind(event: Event) -> _BatchKind:
    if isinstance(event, TransactionalOffsetCommitted):
        return _Transactional(event.producer_id, event.producer_epoch)
    return event if isinstance(event, TransactionEnded) else None


def _marker(event: TransactionEnded) -> Marker:
    return Marker(event.is_committed, event.coordinator_epoch)


def _ignore(append: Append) -> None:
    """No command waits for a batch that another one follows."""
    del append
