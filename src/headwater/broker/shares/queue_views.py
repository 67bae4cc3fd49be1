"""What a queue looks like, for clients that change nothing: its next records, and how far a group is with it."""

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from headwater.broker.access.guard import Guard
from headwater.broker.groups.coordinator import GroupCoordinator
from headwater.broker.partition import Partition
from headwater.broker.reads.fetch import Fetch, PartitionFetch, PartitionRead
from headwater.broker.shares.coordinator import ShareCoordinator
from headwater.broker.shares.measurements import Tally
from headwater.broker.shares.queue_partitions import QueuePartitions
from headwater.broker.shares.received import BatchReader, header_of, record_bytes, records_from
from headwater.broker.shares.share_fetch import SharedPartition
from headwater.clock import Clock
from headwater.config.live import LiveConfig
from headwater.coordination.shares.commands import ShareStatus
from headwater.coordination.shares.share_partition import SharePartition
from headwater.coordination.shares.terms import DeliveryState
from headwater.errors import ErrorCode, Refusal
from headwater.file_range import FileRange
from headwater.ids import GroupId, TopicPartition
from headwater.protocol.batches.batch import HEADER_SIZE
from headwater.protocol.batches.records import Record
from headwater.security.acl import Operation, group, topic

PEEKED_MAX: Final = 1000
# Where most records are done with, a peek would read all of the log to find the others.
READS_MAX: Final = 100


class PeekedRecord(NamedTuple):
    where: TopicPartition
    record: Record
    # AVAILABLE, ACQUIRED or WAITING.
    state: DeliveryState
    # How often it was delivered.
    delivery_count: int


class QueueStats(NamedTuple):
    """One partition as a group reads it. The tally counts from the start of the broker on."""

    where: TopicPartition
    start_offset: int
    end_offset: int
    # Records that are not done with, and how many of them are held by clients, or wait for their next delivery.
    backlog: int
    held: int
    waiting: int
    # For how long the oldest of them has been in the topic; None if there is none.
    oldest_age_ms: int | None
    tally: Tally


class QueueViews:
    def __init__(
        self,
        shares: ShareCoordinator,
        groups: GroupCoordinator,
        partitions: QueuePartitions,
        config: LiveConfig,
        clock: Clock,
    ) -> None:
        self._shares = shares
        self._groups = groups
        self._partitions = partitions
        self._clock = clock
        self._reader = BatchReader(config)

    async def peek(
        self, guard: Guard, group_id: GroupId, topics: Sequence[str], *, records_max: int, bytes_max: int
    ) -> list[PeekedRecord]:
        """The first records that the group is not done with, whether somebody holds them or not. Nothing is taken."""
        guard.check(Operation.READ, group(group_id))
        wanted = self._partitions.of(guard, Operation.READ, group_id, topics)
        if not 1 <= records_max <= PEEKED_MAX:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"a peek gives 1 to {PEEKED_MAX} records, not {records_max}")
        await self._check_group(group_id)
        peeked: list[PeekedRecord] = []
        for each in wanted:
            if len(peeked) >= records_max or bytes_max <= 0:
                break
            found = await self._unfinished(each, records_max - len(peeked), bytes_max)
            bytes_max -= sum(record_bytes(each.record) for each in found)
            peeked += found
        return peeked

    async def _check_group(self, group_id: GroupId) -> None:
        refusal = await self._groups.check_share_group(group_id).wait()
        if refusal is not None:
            raise refusal

    async def _unfinished(self, wanted: SharedPartition, records_max: int, bytes_max: int) -> list[PeekedRecord]:
        share_id, partition = wanted
        found: list[PeekedRecord] = []
        offset = partition.start_offset
        for _ in range(READS_MAX):
            share = self._shares.find(share_id)
            if share is None:
                # The group has not begun with this partition.
                break
            offset = _first_unfinished(share, offset)
            read = await self._fetch(partition, offset, self._shares.is_committed_only(share_id.group_id))
            if read.records is None:
                break
            decode = partial(records_from, offset=offset, aborted=read.aborted or ())
            records, offset = await self._reader.read(read.records, decode)
            for record in records:
                run = share.runs.at(record.offset)
                if record.offset < share.runs.start or (run is not None and run.is_final):
                    continue
                state, count = (DeliveryState.AVAILABLE, 0) if run is None else (run.state, run.delivery_count)
                bytes_max -= record_bytes(record)
                if len(found) >= records_max or (bytes_max < 0 and found):
                    return found
                found.append(PeekedRecord(partition.id, record, state, count))
        return found

    async def _fetch(self, partition: Partition, offset: int, committed_only: bool) -> PartitionRead:
        """One batch at least, if there is one."""
        wanted = PartitionFetch(partition, offset, 1)
        fetch = Fetch([wanted], bytes_min=0, bytes_max=1, wait_ms=0, committed_only=committed_only)
        read = (await fetch.wait())[0]
        if read.error is not ErrorCode.NONE:
            raise Refusal(read.error, f"{partition.id} cannot be read at offset {offset}")
        return read

    async def stats(self, guard: Guard, group_id: GroupId, topics: Sequence[str] | None) -> list[QueueStats]:
        """How far the group is in the partitions that it has begun with, of these topics or (None) of all that the
        client may know of."""
        guard.check(Operation.DESCRIBE, group(group_id))
        if topics is None:
            wanted = None
        else:
            wanted = {each.id for each in self._partitions.of(guard, Operation.DESCRIBE, group_id, topics)}
        await self._check_group(group_id)
        found: list[QueueStats] = []
        for status in await self._shares.statuses(group_id):
            if wanted is None or status.id in wanted:
                partition = self._partitions.find(status.id)
                if partition is not None and self._may_know(guard, partition, is_asked=wanted is not None):
                    found.append(await self._stats(status, partition))
        return sorted(found, key=lambda each: each.where)

    @staticmethod
    def _may_know(guard: Guard, partition: Partition, *, is_asked: bool) -> bool:
        return is_asked or guard.allows(Operation.DESCRIBE, topic(partition.id.topic), is_probe=True)

    async def _stats(self, status: ShareStatus, partition: Partition) -> QueueStats:
        end_offset = partition.high_watermark
        return QueueStats(
            partition.id,
            status.start_offset,
            end_offset,
            backlog=max(end_offset - status.start_offset - status.complete_count, 0),
            held=status.acquired_count,
            waiting=status.waiting_count,
            oldest_age_ms=await self._oldest_age_ms(status, partition),
            tally=self._shares.measurements.tally(status.id),
        )

    async def _oldest_age_ms(self, status: ShareStatus, partition: Partition) -> int | None:
        """By the batch that holds the record: its first timestamp is about that of the record."""
        offset = max(status.start_offset, partition.start_offset)
        if offset >= partition.high_watermark:
            return None
        read = await self._fetch(partition, offset, committed_only=False)
        if read.records is None:
            return None
        header = await self._reader.read(FileRange(read.records.file, read.records.position, HEADER_SIZE), header_of)
        is_dated = not header.is_log_append_time and header.delete_horizon_ms is None
        written_ms = header.base_timestamp if is_dated else header.max_timestamp
        return max(self._clock.now_ms() - written_ms, 0)


def _first_unfinished(share: SharePartition, offset: int) -> int:
    offset = max(offset, share.runs.start)
    run = share.runs.at(offset)
    return run.last + 1 if run is not None and run.is_final else offset
