"""Queues with priorities: share groups are given the records of such a topic lane by lane, not in the order of the log.

Only fetches from topics with `headwater.priority.enable` come here. The lanes of a partition are found out in a thread
when the first group asks; what is appended since is looked at on the loop, if it is little.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from headwater.broker.catalog.effective_config import EffectiveConfig
from headwater.broker.partition import Partition
from headwater.broker.shares.priority.lane_heads import LaneHeads
from headwater.broker.shares.priority.selection import Selection, Selector, Wish
from headwater.clock import Clock
from headwater.config.group import lane_weights
from headwater.coordination.shares.commands import AcquiredRanges
from headwater.coordination.shares.lane_schedule import LANES, LaneLimits, LaneSchedule
from headwater.coordination.shares.share_partition import SharePartition
from headwater.coordination.shares.terms import SharePartitionId
from headwater.ids import GroupId, TopicPartition
from headwater.storage.lanes.lane_task import LaneFileTask, LaneTask
from headwater.storage.recovery.verification import UnverifiedRange

if TYPE_CHECKING:
    from headwater.broker.shares.coordinator import ShareCoordinator

# More is read by a thread.
INLINE_BYTES_MAX: Final = 64 << 10
# A thread reads so many in a moment.
AWAITED_BYTES_MAX: Final = 8 << 20


class _PartitionLanes:
    """The lanes of a partition, and the threads that find them out."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.lanes = partition.new_lanes()
        # How many segments were needed when it was looked last.
        self.needed_count = 0
        # What a thread reads now.
        self.reading_bytes = 0
        self._reading: asyncio.Future[None] | None = None
        self._writing: asyncio.Future[None] | None = None

    def find_out(self, start_offset: int) -> None:
        """Have the lanes from an offset on found out. The partition wakes its fetches when a thread has done so."""
        lanes = self.lanes
        while self._reading is None:
            task = lanes.plan(start_offset)
            if task is None:
                break
            is_small = task.known is not None and task.size_bytes <= INLINE_BYTES_MAX
            if is_small and task.run_at_once():
                lanes.install(task)
                continue
            self.reading_bytes = task.size_bytes
            self._reading = asyncio.get_running_loop().run_in_executor(None, task.run)
            self._reading.add_done_callback(lambda done, task=task: self._read(done, task))
        if self._writing is None:
            file_task = lanes.plan_file()
            if file_task is not None:
                self._writing = asyncio.get_running_loop().run_in_executor(None, file_task.run)
                self._writing.add_done_callback(lambda done: self._written(done, file_task))

    def _read(self, done: "asyncio.Future[None]", task: LaneTask) -> None:
        self._reading = None
        if not done.cancelled():
            done.result()
            self.lanes.install(task)
            for watcher in tuple(self.partition.watchers):
                watcher.partition_moved(self.partition)

    def _written(self, done: "asyncio.Future[None]", task: LaneFileTask) -> None:
        self._writing = None
        if not done.cancelled():
            done.result()
            self.lanes.install_file(task)


class Priorities:
    def __init__(self, coordinator: "ShareCoordinator", config: EffectiveConfig, clock: Clock) -> None:
        self._coordinator = coordinator
        self._config = config
        self._measurements = coordinator.measurements
        self._clock = clock
        self._partitions: dict[TopicPartition, _PartitionLanes] = {}
        self._heads: dict[SharePartitionId, LaneHeads] = {}

    def heads(
        self, share: SharePartition, partition: Partition, awaited_offset: int, limit_offset: int
    ) -> tuple[LaneHeads, int] | None:
        """The lanes as the group sees them, and the offset before `limit_offset` up to which they are known. None until
        they are known up to `awaited_offset`: urgent records may be before it. The partition's watchers are woken."""
        there = self._lanes_of(partition)
        lanes = there.lanes
        lanes.refresh()
        start_offset = share.runs.start
        there.find_out(start_offset)
        known_end = lanes.known_end(start_offset)
        if known_end < awaited_offset:
            return None
        heads = self._heads.get(share.id)
        if heads is None or heads.lanes is not lanes or not heads.is_of(share):
            schedule = LaneSchedule() if heads is None else heads.schedule
            heads = self._heads[share.id] = LaneHeads(share, lanes, schedule)
        heads.refresh()
        if lanes.segment_count > there.needed_count:
            self._release(there)
        return heads, min(known_end, limit_offset)

    def are_soon_known(self, partition: Partition) -> bool:
        """Whether it is worth waiting for lanes even if the client does not wait for records."""
        return self._lanes_of(partition).reading_bytes <= AWAITED_BYTES_MAX

    def _lanes_of(self, partition: Partition) -> _PartitionLanes:
        there = self._partitions.get(partition.id)
        if there is None or there.partition is not partition:
            for name in [name for name, each in self._partitions.items() if each.partition.is_closed]:
                del self._partitions[name]
            there = self._partitions[partition.id] = _PartitionLanes(partition)
        return there

    def select(
        self,
        heads: LaneHeads,
        share: SharePartition,
        partition: Partition,
        *,
        records_max: int,
        bytes_max: int,
        limit_offset: int,
        committed_only: bool,
        wake: Callable[[], None],
    ) -> Selection:
        """Records for a member, to be acquired at once; `wake` is called when a thread has read what was lacking."""
        coordinator = self._coordinator
        group_id = share.id.group_id
        room = share.room(coordinator.limits_of(group_id).locks_max)
        wish = Wish(min(records_max, room), bytes_max, limit_offset, committed_only, len(share.runs))
        expiry = coordinator.expiry if partition.config.has_ttl else None
        limits, now_ms = self._limits_of(group_id), self._clock.monotonic_ms()
        selection = Selector(heads, partition, limits, wish, expiry, wake, now_ms).select()
        wanting = selection.wanting
        if isinstance(wanting, UnverifiedRange):
            # The partition wakes its fetches when the range is verified.
            partition.verify(wanting)
        elif wanting is not None:
            warming = asyncio.get_running_loop().run_in_executor(
                None, wanting.file.warm, wanting.position, wanting.length
            )
            warming.add_done_callback(lambda _: wake())
        return selection

    def settle(self, heads: LaneHeads, selection: Selection, acquired: AcquiredRanges) -> None:
        """What was acquired of a selection; the rest may be chosen again."""
        held = sum(each.last - each.first + 1 for each in acquired)
        if held < sum(selection.counts):
            for batch in selection.batches:
                heads.put_back(batch.first, batch.last)
        for lane in LANES:
            self._measurements.lanes[lane] += selection.counts[lane]
        self._measurements.boosts.value += selection.boosts

    def _limits_of(self, group_id: GroupId) -> LaneLimits:
        config = self._config.of_group(group_id)
        return LaneLimits(
            lane_weights(config.headwater_share_priority_weights),
            config.headwater_share_priority_boost_ms,
            config.headwater_share_priority_ranges_max,
        )

    def _release(self, there: _PartitionLanes) -> None:
        """Forget groups that are gone, and segments that no group asks for any more."""
        for share_id, heads in list(self._heads.items()):
            if not heads.is_of(self._coordinator.find(share_id)):
                del self._heads[share_id]
        starts = [heads.start_offset for heads in self._heads.values() if heads.lanes is there.lanes]
        there.lanes.release_before(min(starts))
        there.needed_count = there.lanes.segment_count
