"""The lanes of a log: which records have which priority, segment by segment.

Nothing is done for a log whose lanes nobody asks for. A reader that asks has the lanes of all segments from an offset
on found out (`lane_task.py`), and from then on those of what is appended. Owned by the loop, as the log is.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Final

from headwater.storage.lanes.lane_table import LaneTable
from headwater.storage.lanes.lane_task import LaneFileTask, LaneTask
from headwater.storage.log import Log
from headwater.storage.segment import Segment

# The file of an active segment is written again when it lacks so many bytes of it, and a part of all: a restart has to
# read no more than that.
LACKING_BYTES_MIN: Final = 16 << 20
LACKING_PART: Final = 4


class LogLanes:
    __slots__ = ("_log", "_report", "_segments", "_stored", "_tables", "_truncations", "revision")

    def __init__(self, log: Log, report: Callable[[str], None]) -> None:
        self._log = log
        self._report = report
        self._tables: dict[Segment, LaneTable] = {}
        # How much of a segment its file covers.
        self._stored: dict[Segment, int] = {}
        self._segments = log.segments
        self._truncations = log.truncations
        # Counts how often known segments left the log. Where compaction removes a record, its offset changes its lane.
        self.revision = 0

    @property
    def segment_count(self) -> int:
        """Of how many segments something is known."""
        return len(self._tables)

    def refresh(self) -> None:
        """Forget what the log does not have any more."""
        log = self._log
        if self._segments is not log.segments:
            self._segments = log.segments
            self.revision += self._retain(set(log.segments))
        if self._truncations != log.truncations:
            self._truncations = log.truncations
            self.revision += self._retain(set())

    def release_before(self, offset: int) -> None:
        """Nobody asks for the segments that end before this offset."""
        self._retain({segment for segment in self._tables if segment.next_offset > offset})

    def _retain(self, segments: set[Segment]) -> bool:
        """Keep no other segments. Whether there were others."""
        others = self._tables.keys() - segments
        for segment in others:
            del self._tables[segment]
            del self._stored[segment]
        return bool(others)

    def known_end(self, start_offset: int) -> int:
        """The lanes of all records from `start_offset` up to this offset are known."""
        end = start_offset
        for segment, table in self._tables_from(start_offset):
            if table is None:
                break
            end = max(end, table.next_offset)
            if table.position < segment.size:
                break
        return end

    # -- tasks

    def plan(self, start_offset: int) -> LaneTask | None:
        """What is to be read next for the lanes from `start_offset` on; None if all of them are known."""
        for segment, table in self._tables_from(start_offset):
            if table is None or table.position < segment.size:
                return LaneTask(self._log.disk, segment, table, self._log.truncations, self._report)
        return None

    def install(self, task: LaneTask) -> None:
        """Takes the result of a task, unless the log has changed there meanwhile."""
        self.refresh()
        segment, found = task.segment, task.found
        is_changed = task.truncations != self._truncations or segment not in self._segments
        if found is None or is_changed or self._tables.get(segment) is not task.known:
            return
        if task.known is None:
            self._tables[segment] = found
            self._stored[segment] = task.stored_position or 0
        else:
            task.known.extend(found)

    def plan_file(self) -> LaneFileTask | None:
        """A file that should be written; None if none should be."""
        for segment, table in self._tables.items():
            stored = self._stored[segment]
            lacking_bytes = table.position - stored
            if segment.is_sealed:
                is_due = lacking_bytes > 0 and table.position >= segment.size
            else:
                is_due = lacking_bytes >= max(LACKING_BYTES_MIN, stored // LACKING_PART)
            if is_due and table.is_whole and table.last_batch is not None:
                # Also if it fails: a full disk is not tried again and again.
                self._stored[segment] = table.position
                return LaneFileTask(self._log.disk, segment, table)
        return None

    def install_file(self, task: LaneFileTask) -> None:
        """Takes the result of a file task."""
        if task.reread is not None and self._tables.get(task.segment) is task.table:
            self._tables[task.segment] = task.reread

    # -- lookups

    def next_range(self, lane: int, offset: int) -> tuple[int, int] | None:
        """The first known range of the lane that reaches `offset`, cut to what lies from there on."""
        for _, table in self._tables_from(offset):
            if table is None:
                return None
            found = table.next_range(lane, offset)
            if found is not None:
                return found
        return None

    def within(self, lane: int, first: int, last: int) -> Iterator[tuple[int, int]]:
        """The ranges of a lane between two offsets."""
        while first <= last:
            found = self.next_range(lane, first)
            if found is None or found[0] > last:
                return
            yield found[0], min(found[1], last)
            first = found[1] + 1

    def _tables_from(self, offset: int) -> Iterator[tuple[Segment, LaneTable | None]]:
        segments, tables = self._segments, self._tables
        for number in range(max(bisect_right(segments, offset, key=_base_offset) - 1, 0), len(segments)):
            segment = segments[number]
            yield segment, tables.get(segment)


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
