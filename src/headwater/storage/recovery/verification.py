"""Batches that an earlier process wrote may have rotted on the disk since: they are verified before a client gets them.

Law: a batch counts as verified when its checksum is right and its offsets agree with those of both neighbours, because
the checksum does not cover offsets. Batches that this process wrote need no verification.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from headwater.errors import CorruptBatch, HeadwaterError
from headwater.file_range import FileRange
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.batch import HEADER_SIZE
from headwater.storage.index import OffsetEntry
from headwater.storage.recovery.scan import Scan, ends_early

if TYPE_CHECKING:
    from headwater.storage.segment import Segment

# Bytes verified in one step, so that a consumer of the whole log waits for few threads.
AHEAD_BYTES: Final = 8 * 1024 * 1024
# So many parts of a segment that lie apart are known; others are verified again.
PARTS_MAX: Final = 64


class VerifiedPart(NamedTuple):
    """The verified part of a segment: it holds all records from `first_offset` up to before `next_offset`."""

    start: int
    first_offset: int
    end: int
    next_offset: int
    # What is wrong with the batch at `end`; None if nothing is known to be.
    problem: str | None = None


class UnverifiedRange:
    """The bytes to verify before a read can be answered: `verify` them in a thread, `accept` the result on the loop,
    and read again. It is no FileRange and cannot be read, so that unverified bytes never reach a socket."""

    __slots__ = ("_is_witnessed", "_limit_offset", "_range", "_segment", "is_under_way", "known")

    def __init__(
        self, segment: "Segment", known: VerifiedPart, end: int, limit_offset: int, *, is_witnessed: bool
    ) -> None:
        """Extends `known` up to the position `end` at most, before which all offsets are below `limit_offset`.
        `is_witnessed`: an index says that the first batch ends with the offset `known.first_offset`."""
        self._range = FileRange(segment.file, known.end, end - known.end)
        self._segment = segment
        self.known = known
        self._limit_offset = limit_offset
        self._is_witnessed = is_witnessed
        # Whether a thread verifies it already; other readers of the same bytes wait for that one.
        self.is_under_way = False

    @property
    def is_current(self) -> bool:
        """Whether the segment still has the file: it may have been cut or replaced meanwhile."""
        return self._segment.is_in(self._range)

    def verify(self) -> VerifiedPart:
        """Reads the file and touches nothing else, so any thread may run it beside the owner of the segment."""
        try:
            return self._scan()
        except OSError as error:
            return self.known._replace(problem=f"it cannot be read: {error}")

    def accept(self, verified: VerifiedPart) -> None:
        """Takes the result of `verify`, on the thread that owns the segment."""
        self._segment.accept(self, verified)

    def _scan(self) -> VerifiedPart:
        start, first_offset, end, next_offset, _ = self.known
        begin, length = self._range.position, self._range.length
        scan = Scan(self._range.file, begin, begin + length, next_offset, self._limit_offset)
        target = begin + AHEAD_BYTES
        before = next_offset
        for position, header, _ in scan:
            if position == begin and self._is_witnessed and header.last_offset != first_offset:
                return self.known._replace(problem=f"its offsets are not those of the index at position {position}")
            # What lies before this batch has now been confirmed by both sides.
            end, next_offset, before = position, before, header.next_offset
            if position >= target:
                return VerifiedPart(start, first_offset, end, next_offset)
        problem = scan.problem
        if problem is None or self._follows(scan):
            end, next_offset = scan.position, scan.next_offset
        if problem is None and next_offset < self._limit_offset:
            problem = ends_early(next_offset, self._limit_offset)
        return VerifiedPart(start, first_offset, end, next_offset, problem)

    def _follows(self, scan: Scan) -> bool:
        """Whether the header of the damaged batch still claims to follow the batch before it."""
        try:
            header = batches.read_header(self._range.file.pread(HEADER_SIZE, scan.position), 0)
        except HeadwaterError:
            return False
        return scan.next_offset <= header.base_offset < self._limit_offset


class Verification:
    """How far the batches of an earlier process in one segment are verified. They are those before the offset
    `before_offset`, and they end at the position `before`; both are 0 once all of them are verified."""

    __slots__ = ("_parts", "_pending", "before", "before_offset")

    def __init__(self, before_offset: int = 0, before: int = 0) -> None:
        self.before_offset = before_offset
        self.before = before
        # Apart from each other, the oldest first. Readers of far places take turns, as those of lanes do.
        self._parts: list[VerifiedPart] = []
        # What is being verified now; every reader that needs it waits for the same range.
        self._pending: UnverifiedRange | None = None

    def known_at(self, offset: int) -> VerifiedPart | None:
        """The verified part, if one holds `offset`."""
        for known in self._parts:
            if known.first_offset <= offset and (
                offset < known.next_offset or (known.end == self.before and known.problem is None)
            ):
                return known
        return None

    def next_at(self, segment: "Segment", entry: OffsetEntry | None) -> UnverifiedRange:
        """What must be verified next, from the index entry `entry` on; raises CorruptBatch where damage is known."""
        start, first_offset = (0, 0) if entry is None else (entry.position, entry.offset)
        extended = next((part for part in self._parts if part.start <= start <= part.end), None)
        if extended is not None and extended.problem is not None:
            raise CorruptBatch(f"{segment.file.path.name}: {extended.problem}; see `headwater log verify`")
        known = extended or VerifiedPart(start, first_offset, start, segment.base_offset)
        pending = self._pending
        if pending is None or pending.known != known or not pending.is_current:
            is_witnessed = entry is not None and extended is None
            pending = UnverifiedRange(segment, known, self.before, self.before_offset, is_witnessed=is_witnessed)
            self._pending = pending
        return pending

    def accept(self, unverified: UnverifiedRange, verified: VerifiedPart) -> bool:
        """Takes a result. False: it is ignored, because the file was cut or replaced meanwhile."""
        if unverified is self._pending:
            self._pending = None
        if not unverified.is_current or verified.end > self.before:
            return False
        # A part that the result reaches is one with it.
        touched = [part for part in self._parts if part.start <= verified.end and verified.start <= part.end]
        for part in touched:
            self._parts.remove(part)
            # The newer one counts where both end: it may have found the damage there.
            first, last = min(part, verified, key=_start), max(verified, part, key=_end)
            verified = VerifiedPart(first.start, first.first_offset, *last[2:])
        self._parts.append(verified)
        del self._parts[:-PARTS_MAX]
        if verified.problem is None and verified.start == 0 and verified.end == self.before:
            self.before_offset = self.before = 0
            self._parts.clear()
        return True

    def cut(self, next_offset: int, position: int) -> None:
        """The segment now ends at `position`; all that is appended from there on is this process's own."""
        if position < self.before:
            self.before_offset, self.before = next_offset, position
            self._parts.clear()


def _start(part: VerifiedPart) -> int:
    return part.start


def _end(part: VerifiedPart) -> int:
    return part.end
