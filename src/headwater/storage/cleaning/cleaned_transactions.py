"""Follows transactions through the batches that compaction reads: which data was aborted, which markers are needed.

A marker is needed while the log holds a batch of its transaction. Compaction reads only decided transactions, so each
that was not aborted was committed.
"""

from collections.abc import Iterable

from headwater.protocol.batches.batch import BatchHeader, Marker
from headwater.storage.producers.transaction_index import AbortedTransaction


class CleanedTransactions:
    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        # By first offset, descending: the next one to begin is at the end.
        self._coming = sorted(aborted, key=lambda one: one.first_offset, reverse=True)
        # The aborted transactions that have begun and not ended, by producer.
        self._aborting: dict[int, AbortedTransaction] = {}
        self._with_batches: set[int] = set()
        self._needed: list[AbortedTransaction] = []

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a data batch belongs to a transaction that was aborted."""
        self._reach(header.last_offset)
        if not header.is_transactional:
            return False
        self._with_batches.add(header.producer_id)
        return header.producer_id in self._aborting

    def end(self, header: BatchHeader, marker: Marker) -> bool:
        """Follows a marker. Returns whether it is needed; then the index entry of an aborted transaction is, too."""
        self._reach(header.last_offset)
        has_batches = header.producer_id in self._with_batches
        self._with_batches.discard(header.producer_id)
        if not marker.committed:
            aborted = self._aborting.pop(header.producer_id, None)
            if aborted is not None and has_batches:
                self._needed.append(aborted)
        return has_batches

    def take_needed(self) -> list[AbortedTransaction]:
        """The aborted transactions whose index entries are still needed, of the markers since the last call."""
        needed, self._needed = self._needed, []
        return needed

    def _reach(self, offset: int) -> None:
        while self._coming and self._coming[-1].first_offset <= offset:
            aborted = self._coming.pop()
            self._aborting[aborted.producer_id] = aborted
