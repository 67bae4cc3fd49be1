"""Chooses records for a member of a share group from all lanes of a partition, by their weights.

The choice is made and the records are acquired in one go, on the loop. So what is chosen is available.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from headwater.broker.partition import Partition
from headwater.broker.shares.expiry import Expiry
from headwater.broker.shares.log_scan import Scan
from headwater.broker.shares.priority.batch_finder import BatchFinder, ColdRange, FoundBatch
from headwater.broker.shares.priority.lane_heads import LaneHeads, Offsets
from headwater.coordination.shares.commands import AcquiredRanges, LogBatch
from headwater.coordination.shares.lane_schedule import LANES, Choice, LaneLimits
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.file_range import FileRange, FileRanges
from headwater.storage.recovery.verification import UnverifiedRange

logger = logging.getLogger(__name__)

# Records that expired, or were aborted, are passed over one range at a time; more than so many make the loop wait.
STEPS_MAX: Final = 2000


class Wish(NamedTuple):
    """What a member may get of a partition."""

    records_max: int
    # Of batches, compressed as they are; one is chosen whatever its size.
    bytes_max: int
    # The records before this offset, whose lanes are known.
    limit_offset: int
    committed_only: bool
    # How many ranges of records the group has in different states.
    range_count: int


class Selection:
    """Records that are to be acquired, with what lies in front of them and cannot be delivered."""

    def __init__(self) -> None:
        self.batches: list[LogBatch] = []
        self.found: dict[int, FoundBatch] = {}
        # What has to be verified, or read by a thread, before more can be chosen.
        self.wanting: UnverifiedRange | ColdRange | None = None
        # Whether a thread looks into a batch (`expiry.py`), or there may be more to pass over.
        self.is_waiting = False
        # Why a lane cannot be read. The others go on.
        self.trouble: HeadwaterError | None = None
        # How many records each lane gives, and how many of them because it had waited for too long.
        self.counts = [0 for _ in LANES]
        self.boosts = 0

    def records_of(self, acquired: AcquiredRanges) -> FileRange:
        """The bytes of the batches that hold these records."""
        ranges: list[FileRange] = []
        number = 0
        for found in sorted(self.found.values()):
            span = found.span
            while number < len(acquired) and acquired[number].last < span.first:
                number += 1
            if number == len(acquired):
                break
            if span.last < acquired[number].first:
                continue
            before = ranges[-1] if ranges else None
            if before is not None and before.file is found.file and before.position + before.length == span.position:
                before.length += span.size
            else:
                ranges.append(FileRange(found.file, span.position, span.size))
        return ranges[0] if len(ranges) == 1 else FileRanges(ranges)


class Selector:
    """One selection under way."""

    def __init__(
        self,
        heads: LaneHeads,
        partition: Partition,
        limits: LaneLimits,
        wish: Wish,
        expiry: Expiry | None,
        wake: Callable[[], None],
        now_ms: int,
    ) -> None:
        self._heads = heads
        self._partition = partition
        self._limits = limits
        self._wish = wish
        self._expiry = expiry
        self._wake = wake
        self._now_ms = now_ms
        self._finder = BatchFinder(partition, wish.limit_offset, committed_only=wish.committed_only)
        self._records_left = wish.records_max
        self._bytes_left = wish.bytes_max
        self._selection = Selection()

    def select(self) -> Selection:
        heads, schedule, selection = self._heads, self._heads.schedule, self._selection
        ahead = [heads.next(lane, self._wish.limit_offset) for lane in LANES]
        schedule.observe([each is not None for each in ahead], self._now_ms)
        steps = 0
        while self._records_left > 0 and any(ahead):
            steps += 1
            if steps > STEPS_MAX:
                selection.is_waiting = True
                self._wake()
                break
            choice = self._choice(ahead)
            first, last = ahead[choice.lane] or (0, 0)
            try:
                taken = self._take(choice, first, last)
            except (HeadwaterError, OSError) as trouble:
                selection.trouble = self._told(trouble)
                ahead[choice.lane] = None
                continue
            if taken is None:
                break
            ahead[choice.lane] = heads.next(choice.lane, self._wish.limit_offset)
            if taken:
                schedule.served(choice.lane, taken, self._limits, self._now_ms)
                selection.counts[choice.lane] += taken
                selection.boosts += taken if choice.is_boost else 0
        schedule.observe([each is not None for each in ahead], self._now_ms)
        selection.batches.sort()
        return selection

    def _told(self, trouble: HeadwaterError | OSError) -> HeadwaterError:
        if isinstance(trouble, HeadwaterError):
            return trouble
        logger.error("%s cannot be read: %s", self._partition.id, trouble)
        return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"{self._partition.id} cannot be read: {trouble}")

    def _choice(self, ahead: Sequence[Offsets | None]) -> Choice:
        choice = self._heads.schedule.choose([each is not None for each in ahead], self._limits, self._now_ms)
        if choice.is_boost or self._wish.range_count < self._limits.ranges_max:
            return choice
        # What lies between the ranges is given first, so that they become fewer.
        _, lane = min((each[0], lane) for lane, each in enumerate(ahead) if each is not None)
        return Choice(lane, self._limits.weights[lane])

    def _take(self, choice: Choice, first: int, last: int) -> int | None:
        """Choose some of these neighbouring records, all from one batch. Gives how many of them can be delivered; None
        if nothing more can be chosen now."""
        lane, selection = choice.lane, self._selection
        batch = self._finder.find(lane, first)
        if isinstance(batch, UnverifiedRange | ColdRange):
            selection.wanting = batch
            selection.is_waiting = True
            return None
        if batch is None or batch.span.first > first:
            # Compaction left nothing of what was here.
            last = last if batch is None else min(last, batch.span.first - 1)
            selection.batches.append(LogBatch(first, last, False))
            self._heads.take(lane, last)
            return 0
        span = batch.span
        if span.first not in selection.found:
            if span.size > self._bytes_left and selection.found:
                return None
            self._bytes_left -= span.size
            selection.found[span.first] = batch
        last = min(last, span.last)
        if not batch.is_deliverable:
            selection.batches.append(LogBatch(first, last, False))
            self._heads.take(lane, last)
            return 0
        pieces = self._pieces(batch, first, last)
        if pieces is None:
            return None
        left, taken = min(choice.records_max, self._records_left), 0
        for piece in pieces:
            if piece.is_expired:
                end = piece.last
            elif taken == left:
                break
            else:
                end = min(piece.last, piece.first + left - taken - 1)
                taken += end - piece.first + 1
            selection.batches.append(piece._replace(last=end))
            self._heads.take(lane, end)
            if end < piece.last:
                break
        self._records_left -= taken
        return taken

    def _pieces(self, batch: FoundBatch, first: int, last: int) -> Sequence[LogBatch] | None:
        """These records of the batch, divided into living and expired ones; None while a thread looks into it."""
        if self._expiry is None:
            return [LogBatch(first, last, True)]
        whole = Scan([LogBatch(batch.span.first, batch.span.last, True)], [batch.span], None)
        divided = self._expiry.applied(whole, self._heads.topic_id, self._partition, batch.file, self._wake)
        if divided.is_waiting:
            self._selection.is_waiting = True
            return None
        return [
            each._replace(first=max(each.first, first), last=min(each.last, last))
            for each in divided.batches
            if each.first <= last and first <= each.last
        ]
