"""The aborted transactions of a whole log: added with their markers, and found by the range that a consumer reads."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final

from headwater.file_range import FileRange
from headwater.storage.index import DamagedIndex
from headwater.storage.producers.snapshot_files import SnapshotFiles
from headwater.storage.producers.transaction_index import AbortedTransaction, TransactionIndex
from headwater.storage.recovery.replay import rebuild_aborted
from headwater.storage.segment import Segment

OFFSET_MAX: Final = 2**63 - 1


class AbortedTransactions:
    __slots__ = ("_all_segments", "_report", "_snapshots", "segments", "staged")

    def __init__(self, segments: Sequence[Segment], snapshots: SnapshotFiles, report: Callable[[str], None]) -> None:
        # Aborted by markers that have their offsets and are not written yet.
        self.staged: list[AbortedTransaction] = []
        self._snapshots = snapshots
        self._report = report
        self.refresh(segments)

    def refresh(self, segments: Sequence[Segment]) -> None:
        """The log consists of other segments than before, or has one more."""
        self._all_segments = segments
        # The segments in which transactions were aborted: none in most logs.
        self.segments = [segment for segment in segments if segment.aborted is not None]

    @property
    def durable_before(self) -> int:
        """All entries whose markers lie before this offset are on disk. Recovery reads the segment of the others, even
        if it is sealed: a transaction that is missing in the index would count as committed."""
        pending = [index for segment in self.segments if (index := segment.aborted) is not None and index.pending_bytes]
        return min((index.first_pending_offset for index in pending), default=OFFSET_MAX)

    def stage(self, aborted: AbortedTransaction) -> None:
        """Its marker is given its offset, and is written with the next append."""
        self.staged.append(aborted)

    def drop_staged(self) -> None:
        """The append failed: the markers were never written."""
        self.staged.clear()

    def note_written(self, active: Segment) -> None:
        """The active segment has grown, perhaps by staged markers."""
        written = [aborted for aborted in self.staged if aborted.last_offset < active.next_offset]
        if not written:
            return
        self.staged = self.staged[len(written) :]
        try:
            for aborted in written:
                active.note_aborted(aborted)
        except DamagedIndex as damage:
            # Rebuilt from the log, it has the markers that were just written.
            self._rebuild(active, damage)
        if not self.segments or self.segments[-1] is not active:
            self.segments.append(active)

    def in_range(self, found: FileRange, offset: int) -> list[AbortedTransaction]:
        """The transactions that may have records in `found`, the result of a read from `offset` on."""
        if not self.segments or not found.length:
            return []
        segments = self._all_segments
        number = bisect_right(segments, offset, key=_base_offset) - 1
        segment = next(segment for segment in segments[number:] if segment.is_in(found))
        return self.within(offset, segment.end_offset_at(found.position + found.length))

    def within(self, offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The transactions that may have records in [offset, end_offset)."""
        found: list[AbortedTransaction] = []
        segments = self.segments
        for segment in segments[bisect_right(segments, offset, key=_next_offset) :]:
            if self._index(segment).search(offset, end_offset, found):
                break
        return found

    def stored_from(self, base_offset: int) -> list[bytes]:
        """The entries of all segments from `base_offset` on, copied for a reader in another thread."""
        return [bytes(self._index(segment).entries) for segment in self.segments if segment.base_offset >= base_offset]

    def _index(self, segment: Segment) -> TransactionIndex:
        """The segment's index, rebuilt if it turns out to be damaged."""
        index = segment.aborted
        assert index is not None
        try:
            if index.last_offset < segment.next_offset:
                return index
            damage = DamagedIndex(f"{index.path.name} knows markers beyond its segment")
        except DamagedIndex as found:
            damage = found
        self._rebuild(segment, damage)
        return index

    def _rebuild(self, segment: Segment, damage: DamagedIndex) -> None:
        assert segment.aborted is not None
        self._report(f"{damage}; it is built anew")
        segment.aborted.reset()
        rebuild_aborted(self._all_segments, self._snapshots, segment.base_offset, segment.next_offset)


def _base_offset(segment: Segment) -> int:
    return segment.base_offset


def _next_offset(segment: Segment) -> int:
    return segment.next_offset
