"""The log of a machine of groups: offsets committed inside transactions are there as any other producer's records are.

They are ordinary records in transactional batches of their producer, and a control batch ends the transaction. So the
partition knows what is undecided; compaction keeps that, drops what was aborted, and takes the rest for plain commits.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from headwater.broker.groups.format import GroupFormat
from headwater.broker.partition import Partition
from headwater.broker.shards.state_log import StateLog
from headwater.broker.writes.append import Append
from headwater.coordination.groups.events import Event
from headwater.coordination.groups.offsets.events import OffsetCommitted, TransactionalOffsetCommitted, TransactionEnded
from headwater.errors import ErrorCode, Refusal
from headwater.ids import ProducerId
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.batch import BatchHeader, Marker
from headwater.protocol.batches.compression import Codec
from headwater.protocol.batches.records import Record


class _Producer(NamedTuple):
    producer_id: ProducerId
    epoch: int


class GroupLog(StateLog[Event]):
    def __init__(self, partition: Partition, codec: int = Codec.NONE) -> None:
        super().__init__(partition, GroupFormat(), codec)
        # The epochs of producers of whom the partition has yet to hear, in the append to come.
        self._epochs: dict[ProducerId, int] = {}

    def check(self, events: Sequence[object]) -> None:
        """Refuses producers and coordinators that others have replaced."""
        # What is decided together is part of one transaction or of none.
        event = events[-1] if events else None
        if not isinstance(event, TransactionalOffsetCommitted | TransactionEnded):
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
        """As few batches as their order allows. They are written together and flushed in their order, so that `append`,
        which hears of the last, hears of all; what befalls one of them befalls those after it."""
        self._epochs.clear()
        runs = [(batch, list(run)) for batch, run in groupby(events, _batch_of)]
        last = len(runs) - 1
        for index, (batch, run) in enumerate(runs):
            self._append_run(batch, run, append if index == last else Append(_unheard), now_ms)

    def _append_run(
        self, batch: _Producer | TransactionEnded | None, run: Sequence[Event], append: Append, now_ms: int
    ) -> None:
        match batch:
            case None:
                super().append(run, append, now_ms)
            case _Producer(producer_id, epoch):
                records = self._records(run, now_ms)
                built = batches.build(
                    records, codec=self._codec, producer_id=producer_id, producer_epoch=epoch, transactional=True
                )
                self._stage(built, append, now_ms)
            case TransactionEnded():
                self.partition.stage_marker(batch.producer_id, batch.producer_epoch, _marker(batch), append, now_ms)

    def _events(self, header: BatchHeader, records: Sequence[Record]) -> Iterable[Event]:
        if header.is_control:
            return _ends(header, records)
        events = super()._events(header, records)
        return _pended(header, events) if header.is_transactional else events


def _ends(header: BatchHeader, records: Sequence[Record]) -> Iterator[Event]:
    for marker in map(batches.read_marker, records):
        if marker is not None:
            producer_id = ProducerId(header.producer_id)
            yield TransactionEnded(producer_id, header.producer_epoch, marker.coordinator_epoch, marker.committed)


def _pended(header: BatchHeader, events: Iterable[Event]) -> Iterator[Event]:
    for event in events:
        if isinstance(event, OffsetCommitted):
            yield TransactionalOffsetCommitted(ProducerId(header.producer_id), header.producer_epoch, *event)
        else:
            yield event


def _batch_of(event: Event) -> _Producer | TransactionEnded | None:
    """What tells the batch that an event is in from those of its neighbours; the end of a transaction stands alone."""
    if isinstance(event, TransactionalOffsetCommitted):
        return _Producer(event.producer_id, event.producer_epoch)
    return event if isinstance(event, TransactionEnded) else None


def _marker(event: TransactionEnded) -> Marker:
    return Marker(event.is_committed, event.coordinator_epoch)


def _unheard(_append: Append) -> None:
    """Nobody waits for a batch that others follow."""
