"""Acknowledgements inside transactions that are open: each counts once its transaction is committed.

They are stored beside the states of the records, under tags of their own. Readers of the log that do not know them
(Kafka's tools) see what counts: a record is available until the transaction that accepts it is committed.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from headwater.coordination.shares.terms import AcknowledgeType
from headwater.ids import ProducerId


class PendingBatch(NamedTuple):
    """Neighbouring records that a transaction accepts or rejects, as they were delivered the last time."""

    first: int
    last: int
    delivery_count: int
    type: AcknowledgeType


class PendingTransaction(NamedTuple):
    """What an open transaction says of the records of one share-partition."""

    producer_id: ProducerId
    producer_epoch: int
    # In the order of the log.
    batches: Sequence[PendingBatch]

    def says(self, offset: int, kind: AcknowledgeType) -> bool:
        number = bisect_right(self.batches, offset, key=lambda batch: batch.first) - 1
        return number >= 0 and offset <= self.batches[number].last and kind is self.batches[number].type


class PendingAcknowledgements:
    __slots__ = ("_transactions",)

    def __init__(self) -> None:
        self._transactions: dict[ProducerId, PendingTransaction] = {}

    def __bool__(self) -> bool:
        return bool(self._transactions)

    def of(self, producer_id: ProducerId) -> PendingTransaction | None:
        return self._transactions.get(producer_id)

    def add(self, transaction: PendingTransaction) -> None:
        producer_id, epoch, batches = transaction
        known = self._transactions.get(producer_id)
        if known is not None:
            batches = [*known.batches, *batches]
        self._transactions[producer_id] = PendingTransaction(producer_id, epoch, joined(batches))

    def remove(self, producer_id: ProducerId) -> None:
        self._transactions.pop(producer_id, None)

    def stored(self, start: int, end: int, *, without: ProducerId | None = None) -> Sequence[PendingTransaction]:
        """What a snapshot of the offsets from `start` up to `end` has of them."""
        return tuple(
            PendingTransaction(producer_id, epoch, kept)
            for producer_id, epoch, batches in self._transactions.values()
            if producer_id != without and (kept := tuple(_cut(batches, start, end)))
        )


def joined(batches: Iterable[PendingBatch]) -> Sequence[PendingBatch]:
    """In the order of the log; neighbours that differ in nothing else become one."""
    together: list[PendingBatch] = []
    for each in sorted(batches):
        if together and together[-1].last + 1 == each.first and together[-1][2:] == each[2:]:
            together[-1] = together[-1]._replace(last=each.last)
        else:
            together.append(each)
    return tuple(together)


def _cut(batches: Iterable[PendingBatch], start: int, end: int) -> Iterable[PendingBatch]:
    for each in batches:
        if each.last >= start and each.first < end:
            yield each._replace(first=max(each.first, start), last=min(each.last, end - 1))
