"""A member of a share group asks for records: they are acquired for it, at once or as soon as there are any.

A fetch that has to wait registers with its partitions, whose logs may grow, and with its share-partitions, whose
records may become available again; it tries again when one of them moves, at most once per loop turn.
"""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from headwater.broker.partition import Partition
from headwater.broker.pending import Pending
from headwater.broker.reads.fetch import WAIT_MS_MAX
from headwater.broker.shards.shard import Outcome
from headwater.broker.shares.coordinator import ShareCoordinator
from headwater.broker.shares.log_scan import Scan, scan
from headwater.coordination.shares.commands import Acquire, AcquiredRanges
from headwater.coordination.shares.share_partition import SharePartition
from headwater.coordination.shares.terms import SharePartitionId
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.file_range import FileRange
from headwater.ids import MemberId
from headwater.storage.recovery.verification import UnverifiedRange

logger = logging.getLogger(__name__)


class SharedPartition(NamedTuple):
    """A partition that a member reads for its group."""

    id: SharePartitionId
    partition: Partition


class ShareFetchLimits(NamedTuple):
    bytes_min: int
    bytes_max: int
    records_max: int
    # Whether `records_max` cuts batches.
    is_strict: bool
    wait_ms: int
    # Whether only records of committed transactions are given.
    committed_only: bool
    # How long the records are held; None as the group's setting says.
    lock_duration_ms: int | None = None


class ShareRead:
    """What one partition gave."""

    __slots__ = ("acquired", "error", "records", "wanted")

    def __init__(self, wanted: SharedPartition) -> None:
        self.wanted = wanted
        self.error: HeadwaterError | None = None
        self.records: FileRange | None = None
        self.acquired: AcquiredRanges = ()

    def told(self, outcome: Outcome[AcquiredRanges]) -> None:
        """The state that the acquisition rests on is on disk, or could not be written."""
        if isinstance(outcome, HeadwaterError):
            self.records, self.acquired = None, ()


class _Plan(NamedTuple):
    """What could be read of one partition."""

    read: ShareRead
    share: SharePartition
    offset: int
    found: FileRange


class _Acquisition(NamedTuple):
    read: ShareRead
    told: Pending[Outcome[AcquiredRanges]]


class ShareFetch(Pending[list[ShareRead]]):
    __slots__ = (
        "_coordinator",
        "_is_expired",
        "_is_read_scheduled",
        "_is_resolving",
        "_is_warming",
        "_limits",
        "_loop",
        "_member_id",
        "_timer",
        "_wanted",
    )

    is_abandonable = True

    def __init__(
        self,
        coordinator: ShareCoordinator,
        member_id: MemberId,
        wanted: Sequence[SharedPartition],
        limits: ShareFetchLimits,
    ) -> None:
        Pending.__init__(self)  # `super()` costs more than what it finds
        self._coordinator = coordinator
        self._member_id = member_id
        self._wanted = wanted
        self._limits = limits
        self._is_read_scheduled = self._is_expired = self._is_warming = self._is_resolving = False
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        if limits.wait_ms > 0 and wanted:
            self._timer = self._loop.call_later(min(limits.wait_ms, WAIT_MS_MAX) / 1000, self.expire)
        else:
            self._is_expired = True
        # Before the first attempt, which may have a thread verify or read records: that wakes the fetch.
        for each in wanted:
            each.partition.watchers.add(self)
        coordinator.wait_for((each.id for each in wanted), self)
        self._attempt()

    @property
    def committed_only(self) -> bool:
        return self._limits.committed_only

    def partition_moved(self, partition: Partition) -> None:
        del partition
        self.read_soon()

    def read_soon(self) -> None:
        if not self._is_read_scheduled:
            self._is_read_scheduled = True
            self._loop.call_soon(self._attempt_again)

    def expire(self) -> None:
        """Stop waiting: reply with what can be had now."""
        self._is_expired = True
        self.read_soon()

    def abandon(self) -> None:
        """The client has gone. What it acquired is given back when its session ends, with its connection."""
        self._stop_waiting()
        self._is_resolving = True

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for each in self._wanted:
            each.partition.watchers.discard(self)
        self._coordinator.forget_waiting((each.id for each in self._wanted), self)

    def _attempt_again(self) -> None:
        self._is_read_scheduled = False
        if not self._is_resolving:
            self._attempt()

    def _attempt(self) -> None:
        self._is_warming = False
        reads = [ShareRead(each) for each in self._wanted]
        plans = [plan for read in reads if (plan := self._planned(read)) is not None]
        has_failed = any(read.error is not None for read in reads)
        total = sum(plan.found.length for plan in plans)
        is_enough = total > 0 and total >= self._limits.bytes_min
        acquisitions: list[_Acquisition] = []
        if is_enough or has_failed or self._is_expired:
            acquisitions = self._acquire(plans)
        has_records = any(read.acquired for read in reads)
        if has_records or has_failed or (self._is_expired and not self._is_warming):
            self._is_resolving = True
            self._stop_waiting()
            self._resolve_when_told(reads, acquisitions)

    def _planned(self, read: ShareRead) -> _Plan | None:
        """Find out what there is to acquire in one partition; None if there is nothing now."""
        share_id, partition = read.wanted
        try:
            partition.check_online()
            share = self._coordinator.find(share_id)
            if share is None:
                self._coordinator.begin(share_id, partition)
                return None
            if partition.leader_epoch != share.leader_epoch:
                self._coordinator.leader_epoch_moved(share, partition)
                # Its state may be another object now.
                share = self._coordinator.find(share_id) or share
            if partition.start_offset > share.runs.start:
                self._coordinator.log_start_moved(share_id, partition.start_offset)
            if not share.has_room(self._coordinator.limits_of(share_id.group_id).locks_max):
                return None
            limits = self._limits
            limit_offset = partition.last_stable_offset if limits.committed_only else partition.high_watermark
            offset = share.next_fetch_offset
            if offset >= limit_offset:
                return None
            found = partition.read(offset, limits.bytes_max, limit_offset=limit_offset, first_batch_whole=True)
            if isinstance(found, UnverifiedRange):
                # The partition wakes this fetch when the range is verified.
                self._is_warming = True
                partition.verify(found)
                return None
            return None if found is None or not found.length else _Plan(read, share, offset, found)
        except HeadwaterError as error:
            read.error = error
        except OSError as trouble:
            logger.error("%s cannot be read: %s", partition.id, trouble)
            read.error = Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition.id} cannot be read: {trouble}")
        return None

    def _acquire(self, plans: Sequence[_Plan]) -> list[_Acquisition]:
        limits = self._limits
        records_left, bytes_left = limits.records_max, limits.bytes_max
        acquisitions: list[_Acquisition] = []
        for read, share, offset, found in plans:
            if records_left <= 0 or bytes_left <= 0:
                break
            partition = read.wanted.partition
            aborted = partition.aborted(found, offset) if limits.committed_only else ()
            try:
                scanned = scan(found, offset, share, records_left, aborted)
            except (HeadwaterError, OSError) as trouble:
                logger.error("%s cannot be read: %s", partition.id, trouble)
                read.error = Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition.id} cannot be read: {trouble}")
                continue
            if scanned.cold_position is not None:
                self._warm(found, scanned.cold_position)
            if partition.config.has_ttl:
                topic_id = read.wanted.id.topic_id
                scanned = self._coordinator.expiry.applied(scanned, topic_id, partition, found.file, self.read_soon)
                self._is_warming |= scanned.is_waiting
            if not scanned.batches:
                continue
            command = Acquire(self._member_id, scanned.batches, records_left, limits.is_strict, limits.lock_duration_ms)
            acquired, told = self._coordinator.acquire(read.wanted.id, command)
            acquisitions.append(_Acquisition(read, told))
            if acquired:
                self._give(read, acquired, scanned, found)
                records_left -= sum(each.last - each.first + 1 for each in acquired)
                bytes_left -= 0 if read.records is None else read.records.length
            elif share.next_fetch_offset > offset:
                # There was nothing to deliver: more may follow.
                self._is_warming = True
                self.read_soon()
        return acquisitions

    @staticmethod
    def _give(read: ShareRead, acquired: AcquiredRanges, scanned: Scan, found: FileRange) -> None:
        read.acquired = acquired
        read.records = scanned.trimmed(found, acquired[0].first, acquired[-1].last)

    def _warm(self, found: FileRange, position: int) -> None:
        """Have a thread read what is not in the page cache, then try again."""
        self._is_warming = True
        length = found.position + found.length - position
        warming = self._loop.run_in_executor(None, found.file.warm, position, length)
        warming.add_done_callback(lambda _: self.read_soon())

    def _resolve_when_told(self, reads: list[ShareRead], acquisitions: Sequence[_Acquisition]) -> None:
        left = len(acquisitions)
        if not left:
            self.resolve(reads)
            return

        def told(read: ShareRead, outcome: Outcome[AcquiredRanges]) -> None:
            nonlocal left
            left -= 1
            read.told(outcome)
            if not left:
                self.resolve(reads)

        for read, acquisition in acquisitions:
            acquisition.then(partial(told, read))
