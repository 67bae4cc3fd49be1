"""Bytes that an earlier process wrote may have rotted on the disk since: they are verified before a client gets them.

Law: a batch counts as verified when its checksum is right and the offsets of both its neighbours agree with its own,
for those lie outside of the checksum. What this process wrote itself is in no doubt.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from headwater.errors import CorruptBatch, HeadwaterError
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.batch import HEADER_SIZE
from headwater.storage.file_range import FileRange
from headwater.storage.index import OffsetEntry
from headwater.storage.recovery.scan import Scan, ends_early

if TYPE_CHECKING:
    from headwater.storage.segment import Segment

# Verified at a time, so that a reader of all there is waits for few threads.
AHEAD_BYTES: Final = 8 * 1024 * 1024


class Verified(NamedTuple):
    """A part of a segment that holds all records from `first_offset` up to before `next_offset`."""

    start: int
    first_offset: int
    end: int
    next_offset: int
    # What is wrong with the batch at `end`, where something is.
    problem: str | None = None


class UnverifiedRange(FileRange):
    """In place of what a read would find: `verify` these bytes in a thread, `settle`, and read again."""

    __slots__ = ("_is_witnessed", "_limit_offset", "_segment", "is_under_way", "known")

    def __init__(self, segment: "Segment", known: Verified, end: int, limit_offset: int, *, is_witnessed: bool) -> None:
        """What is known so far grows, up to `end` at most, which is where an offset of `limit_offset` begins. A witness
        is an index: it says that the first batch ends with the offset `known.first_offset`."""
        super().__init__(segment.file, known.end, end - known.end)
        self._segment = segment
        self.known = known
        self._limit_offset = limit_offset
        self._is_witnessed = is_witnessed
        # Whether somebody has begun to verify it; whoever else wants it need not.
        self.is_under_way = False

    def verify(self) -> Verified:
        """Reads the file and nothing else, so that it may take its time beside the owner of the segment."""
        try:
            return self._scan()
        except OSError as error:
            return self.known._replace(problem=f"it cannot be read: {error}")

    def _scan(self) -> Verified:
        start, first_offset, end, next_offset, _ = self.known
        scan = Scan(self.file, self.position, self.position + self.length, next_offset, self._limit_offset)
        target = self.position + AHEAD_BYTES
        before = next_offset
        for position, header, _ in scan:
            if position == self.position and self._is_witnessed and header.last_offset != first_offset:
                return self.known._replace(problem=f"its offsets are not those of the index at position {position}")
            # What lies before this batch has now been confirmed by both sides.
            end, next_offset, before = position, before, header.next_offset
            if position >= target:
                return Verified(start, first_offset, end, next_offset)
        problem = scan.problem
        if problem is None or self._follows(scan):
            end, next_offset = scan.position, scan.next_offset
        if problem is None and next_offset < self._limit_offset:
            problem = ends_early(next_offset, self._limit_offset)
        return Verified(start, first_offset, end, next_offset, problem)

    def settle(self, verified: Verified) -> None:
        """For the owner of the segment."""
        self._segment.settle(self, verified)

    def _follows(self, scan: Scan) -> bool:
        """Whether what is damaged still says that it comes after the batch before it."""
        try:
            header = batches.read_header(self.file.pread(HEADER_SIZE, scan.position), 0)
        except HeadwaterError:
            return False
        return scan.next_offset <= header.base_offset < self._limit_offset


class Doubts:
    """What is known about the batches of a segment that an earlier process wrote: those before the offset
    `before_offset`, which end at the position `before`."""

    __slots__ = ("_pending", "_verified", "before", "before_offset")

    def __init__(self, before_offset: int = 0, before: int = 0) -> None:
        self.before_offset = before_offset
        self.before = before
        self._verified: Verified | None = None
        # Whoever wants what is being verified already waits for that.
        self._pending: UnverifiedRange | None = None

    def known_at(self, offset: int) -> Verified | None:
        """The part that was verified, if it holds `offset`."""
        known = self._verified
        if known is None or offset < known.first_offset:
            return None
        if offset < known.next_offset or (known.end == self.before and known.problem is None):
            return known
        return None

    def next_at(self, segment: "Segment", entry: OffsetEntry | None) -> UnverifiedRange:
        """What must be verified next, where an index leads to `entry`; an error if that is known to be damaged."""
        start, first_offset = (0, 0) if entry is None else (entry.position, entry.offset)
        known = self._verified
        is_extended = known is not None and known.start <= start <= known.end
        if known is None or not is_extended:
            known = Verified(start, first_offset, start, segment.base_offset)
        elif known.problem is not None:
            raise CorruptBatch(f"{segment.file.path.name}: {known.problem}; see `headwater log verify`")
        pending = self._pending
        if pending is None or pending.known != known or not segment.is_in(pending):
            is_witnessed = entry is not None and not is_extended
            pending = UnverifiedRange(segment, known, self.before, self.before_offset, is_witnessed=is_witnessed)
            self._pending = pending
        return pending

    def settle(self, doubtful: UnverifiedRange, verified: Verified, *, is_current: bool) -> bool:
        """Whether that is news: not about a file that was cut or replaced meanwhile."""
        if doubtful is self._pending:
            self._pending = None
        if not is_current or verified.end > self.before:
            return False
        self._verified = verified
        if verified.problem is None and verified.start == 0 and verified.end == self.before:
            self.before_offset = self.before = 0
            self._verified = None
        return True

    def cut(self, next_offset: int, position: int) -> None:
        """The segment ends there, and what follows is this process's own."""
        if position < self.before:
            self.before_offset, self.before, self._verified = next_offset, position, None
