"""The next records of each lane that a share group may be given.

Each lane has a cursor: no record before it is available, but for those that came back. So the next record is found
without passing over what is done with, however far the lanes are apart.
"""

from heapq import heappop, heappush

from headwater.coordination.shares.lane_schedule import LANES, LaneSchedule
from headwater.coordination.shares.share_partition import SharePartition
from headwater.coordination.shares.terms import DeliveryState
from headwater.ids import TopicId
from headwater.storage.lanes.log_lanes import LogLanes

Offsets = tuple[int, int]


class LaneHeads:
    def __init__(self, share: SharePartition, lanes: LogLanes, schedule: LaneSchedule) -> None:
        self._share = share
        self.lanes = lanes
        self._revision = lanes.revision
        self._cursors = [share.runs.start for _ in LANES]
        # Ranges before the cursors that have come back, the first ones first.
        self._returned: list[list[Offsets]] = [[] for _ in LANES]
        self.schedule = schedule
        share.returned = []

    @property
    def topic_id(self) -> TopicId:
        return self._share.id.topic_id

    @property
    def start_offset(self) -> int:
        return self._share.runs.start

    def is_of(self, share: SharePartition | None) -> bool:
        """Whether the cursors count for this state of the group, and for the log as it is."""
        is_followed = self._share is share and self._share.returned is not None
        return is_followed and self._revision == self.lanes.revision

    def refresh(self) -> None:
        """Learn which records came back since the last time."""
        returned, self._share.returned = self._share.returned, []
        for first, last in returned or ():
            self.put_back(first, last)

    def put_back(self, first: int, last: int) -> None:
        for lane in LANES:
            cursor = self._cursors[lane]
            if first < cursor:
                for each in self.lanes.within(lane, first, min(last, cursor - 1)):
                    heappush(self._returned[lane], each)

    def next(self, lane: int, limit_offset: int) -> Offsets | None:
        """The first neighbouring records of the lane that are available, before `limit_offset`."""
        back = self._first_returned(lane)
        return back if back is not None else self._first_after(lane, limit_offset)

    def take(self, lane: int, last: int) -> None:
        """What `next` gave is taken, up to `last`."""
        returned = self._returned[lane]
        if not returned:
            self._cursors[lane] = max(self._cursors[lane], last + 1)
        # A range may be there twice, if it came back twice.
        while returned and returned[0][0] <= last:
            end = heappop(returned)[1]
            if last < end:
                heappush(returned, (last + 1, end))

    def _first_returned(self, lane: int) -> Offsets | None:
        returned = self._returned[lane]
        while returned:
            first, last = returned[0]
            for run in self._share.runs.within(first, last):
                if run.state is DeliveryState.AVAILABLE:
                    found = max(run.first, first)
                    if found > first:
                        # The others are held again, or done with.
                        heappop(returned)
                        heappush(returned, (found, last))
                    return found, min(run.last, last)
            heappop(returned)
        return None

    def _first_after(self, lane: int, limit_offset: int) -> Offsets | None:
        runs = self._share.runs
        offset = max(self._cursors[lane], runs.start)
        while offset < limit_offset:
            found = self.lanes.next_range(lane, offset)
            if found is None:
                offset = limit_offset
                break
            offset, last = found
            if offset >= limit_offset:
                break
            run = runs.at(offset)
            if run is None or run.state is DeliveryState.AVAILABLE:
                self._cursors[lane] = offset
                end = last if run is None else min(last, run.last)
                return offset, min(end, limit_offset - 1)
            offset = run.last + 1
        self._cursors[lane] = max(self._cursors[lane], min(offset, limit_offset))
        return None
