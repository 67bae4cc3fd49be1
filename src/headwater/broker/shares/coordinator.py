"""Share-partitions: every command to the machines over `__share_group_state`, and the fetches that wait for records.

The topic is created when the first share group reads a partition. A refused command is an outcome, never raised.
"""

# Lazy annotations: nested functions are defined per request.
from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from headwater.broker.catalog.effective_config import EffectiveConfig
from headwater.broker.catalog.hosted_partitions import HostedPartitions
from headwater.broker.catalog.producer_ids import ProducerIds
from headwater.broker.groups.coordinator import GroupCoordinator
from headwater.broker.partition import Partition
from headwater.broker.pending import Pending
from headwater.broker.reads.offset_lookup import Place, look_up
from headwater.broker.shards.shard import Outcome
from headwater.broker.shards.sharded_topic import ShardedTopic, ShardedTopicDefinition
from headwater.broker.shards.state_log import StateLog
from headwater.broker.shares.format import ShareFormat
from headwater.broker.shares.gauges import ShareGauges
from headwater.broker.shares.measurements import ShareMeasurements
from headwater.broker.topics import Topics
from headwater.broker.writes.journal import Journal
from headwater.clock import Clock
from headwater.config.group import EARLIEST, LATEST, READ_COMMITTED, reset_duration_ms
from headwater.coordination.catalog.machine import CatalogMachine
from headwater.coordination.catalog.topic_names import SHARE_STATE_TOPIC
from headwater.coordination.decisions import Decision, Now, Ticket
from headwater.coordination.shares.acknowledgement import ranges_of
from headwater.coordination.shares.commands import (
    Acknowledged,
    Acknowledgement,
    Acquire,
    AcquiredRanges,
    RecordsAvailable,
    RecordsGivenUp,
    Settled,
    ShareStatus,
    Verdict,
)
from headwater.coordination.shares.events import ShareEvent
from headwater.coordination.shares.limits import ShareLimits
from headwater.coordination.shares.machine import ShareMachine
from headwater.coordination.shares.share_partition import SharePartition
from headwater.coordination.shares.terms import SharePartitionId
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import GroupId, MemberId, TopicId, TopicPartition
from headwater.metrics import Metrics

if TYPE_CHECKING:
    from headwater.broker.audit.audit_log import AuditLog
    from headwater.broker.shares.dead_letters import DeadLetterWriter
    from headwater.broker.shares.expiry import Expiry
    from headwater.broker.shares.queue import Queue
    from headwater.broker.shares.queue_partitions import QueuePartitions
    from headwater.broker.shares.queue_views import QueueViews
    from headwater.broker.shares.share_fetch import ShareFetch
    from headwater.broker.shares.transactional_queue import TransactionalQueue
    from headwater.broker.transactions.coordinator import TransactionCoordinator

logger = logging.getLogger(__name__)


class ShareCoordinator(ShardedTopic[ShareMachine]):
    def __init__(
        self,
        topics: Topics,
        partitions: HostedPartitions,
        catalog: CatalogMachine,
        config: EffectiveConfig,
        groups: GroupCoordinator,
        producer_ids: ProducerIds,
        transactions: TransactionCoordinator,
        audit: AuditLog | None,
        journal: Journal,
        clock: Clock,
    ) -> None:
        self.measurements = ShareMeasurements()
        self._catalog = catalog
        self._config = config
        self._groups = groups
        self._producer_ids = producer_ids
        self._transactions = transactions
        self._audit = audit
        self._dead_letter_writer: DeadLetterWriter | None = None
        # The fetches that wait for records of a share-partition.
        self._waiting: dict[SharePartitionId, set[ShareFetch]] = {}
        # Share-partitions whose first offset is being looked up.
        self._beginning: dict[SharePartitionId, asyncio.Task[None]] = {}
        self._deletions: set[asyncio.Task[HeadwaterError | None]] = set()
        current = config.live.current
        overrides = {
            # Each update counts until a snapshot follows, so that compaction by key would lose some.
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "retention.bytes": "-1",
            "segment.bytes": str(current.share_coordinator_state_topic_segment_bytes),
        }

        def new_log(partition: Partition) -> StateLog[ShareEvent]:
            return StateLog(partition, ShareFormat(), current.share_coordinator_state_topic_compression_codec)

        definition = ShardedTopicDefinition(
            SHARE_STATE_TOPIC,
            lambda: current.share_coordinator_state_topic_num_partitions,
            lambda: overrides,
            new_log,
            lambda: ShareMachine(self.limits_of, catalog.by_id.__contains__, self._has_room),
        )
        super().__init__(definition, topics, partitions, journal, clock, self._perform_effect)

    @cached_property
    def queue(self) -> Queue:
        """Share groups for clients that receive without being members."""
        # Late import: most brokers have no such clients.
        from headwater.broker.shares.queue import Queue  # noqa: PLC0415

        return Queue(self, self._groups, self._queue_partitions, self._catalog, self._config.live)

    @cached_property
    def transactional_queue(self) -> TransactionalQueue:
        """What becomes of received records, decided by the end of a transaction."""
        from headwater.broker.shares.transactional_queue import TransactionalQueue  # noqa: PLC0415  (late, as above)

        return TransactionalQueue(self, self._transactions)

    @cached_property
    def queue_views(self) -> QueueViews:
        """What queues look like."""
        from headwater.broker.shares.queue_views import QueueViews  # noqa: PLC0415  (late, as above)

        return QueueViews(self, self._groups, self._queue_partitions, self._config.live, self._clock)

    @cached_property
    def _queue_partitions(self) -> QueuePartitions:
        from headwater.broker.shares.queue_partitions import QueuePartitions  # noqa: PLC0415  (late, as above)

        return QueuePartitions(self._topics, self._partitions)

    def _has_room(self) -> bool:
        """Whether one more share-partition may begin."""
        begun = sum(len(machine.partitions) for machine in self.machines())
        return begun < self._config.live.current.headwater_share_partitions_max

    def limits_of(self, group_id: GroupId) -> ShareLimits:
        config = self._config.of_group(group_id)
        return ShareLimits(
            config.share_record_lock_duration_ms,
            config.share_delivery_count_limit,
            config.share_partition_max_record_locks,
            self._config.live.current.share_coordinator_snapshot_update_records_per_snapshot,
            config.headwater_share_retry_backoff_ms,
            config.headwater_share_retry_backoff_factor,
            config.headwater_share_retry_backoff_max_ms,
            config.has_dead_letters,
            config.has_dead_letters and config.headwater_deadletterqueue_expired_enable,
        )

    def is_committed_only(self, group_id: GroupId) -> bool:
        return self._config.of_group(group_id).share_isolation_level == READ_COMMITTED

    def reset_of(self, group_id: GroupId) -> str:
        """Where the group begins in a partition that is new to it."""
        return self._config.of_group(group_id).share_auto_offset_reset

    def allows_renewal(self, group_id: GroupId) -> bool:
        return self._config.of_group(group_id).share_renew_acknowledge_enable

    def lock_duration_ms(self, group_id: GroupId) -> int:
        return self._config.of_group(group_id).share_record_lock_duration_ms

    # -- members

    def find(self, share_id: SharePartitionId) -> SharePartition | None:
        """None if the group has not begun with the partition, or while its state is being loaded."""
        if not self.shards:
            return None
        machine = self.shards[self.partition_of(share_id.coordinator_key)].machine
        share = None if machine is None else machine.find(share_id)
        return share if share is not None and share.has_begun else None

    def begin(self, share_id: SharePartitionId, partition: Partition) -> None:
        """Have the group begin with a partition that is new to it. Fetches that wait for it are woken then."""
        if share_id in self._beginning or self._groups.is_loading(share_id.group_id):
            return
        if not self._groups.has_share_reader(share_id.group_id, partition.id.topic):
            # Anybody could fill the log with state of groups that do not exist.
            raise Refusal(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"no member of share group '{share_id.group_id}' subscribes to '{partition.id.topic}'",
            )
        task = asyncio.get_running_loop().create_task(self._begin(share_id, partition))
        self._beginning[share_id] = task
        task.add_done_callback(lambda _: self._beginning.pop(share_id, None))

    async def _begin(self, share_id: SharePartitionId, partition: Partition) -> None:
        try:
            await self.begin_at(share_id, partition, self.reset_of(share_id.group_id))
        except HeadwaterError as error:
            # The member's next fetch tries again.
            logger.warning("share group %r cannot begin with %s: %s", share_id.group_id, partition.id, error)

    async def begin_at(self, share_id: SharePartitionId, partition: Partition, reset: str) -> None:
        """Begin with a partition, unless the group has begun with it. `reset` is as share.auto.offset.reset."""
        await self.prepare()
        start_offset = await self._first_offset(partition, reset)
        outcome = await self.submit(
            share_id.coordinator_key,
            lambda machine, _, now: machine.decide_begin(share_id, start_offset, partition.leader_epoch, now),
        ).wait()
        if isinstance(outcome, HeadwaterError):
            raise outcome

    async def _first_offset(self, partition: Partition, reset: str) -> int:
        if reset in (EARLIEST, LATEST):
            place = Place.EARLIEST if reset == EARLIEST else Place.LATEST
            return (await look_up(partition, place, committed_only=False)).offset
        since_ms = max(self._clock.now_ms() - (reset_duration_ms(reset) or 0), 0)
        found = await look_up(partition, since_ms, committed_only=False)
        # No record is as new as that.
        return found.offset if found.offset >= 0 else partition.high_watermark

    def acquire(
        self, share_id: SharePartitionId, command: Acquire
    ) -> tuple[AcquiredRanges, Pending[Outcome[AcquiredRanges]]]:
        """What the member gets, and when it may be told so."""
        given: list[AcquiredRanges] = []

        def decide(machine: ShareMachine, _ticket: Ticket, now: Now) -> Decision[AcquiredRanges]:
            decision = machine.decide_acquire(share_id, command, now)
            given.append(decision.result)
            return decision

        told = self.submit(share_id.coordinator_key, decide)
        ranges = given[0] if given else ()
        self.measurements.count_delivered(share_id, sum(each.last - each.first + 1 for each in ranges))
        return ranges, told

    def acknowledge(
        self,
        share_id: SharePartitionId,
        member_id: MemberId,
        acknowledgements: Sequence[Acknowledgement],
        *,
        is_renewal: bool,
    ) -> Pending[Outcome[Acknowledged]]:
        config = self._config.of_group(share_id.group_id)
        allows_renewal = is_renewal and config.share_renew_acknowledge_enable

        def decide(machine: ShareMachine, _ticket: Ticket, now: Now) -> Decision[Acknowledged]:
            ranges = ranges_of(acknowledgements, allows_renewal=allows_renewal)
            decision = machine.decide_acknowledge(share_id, member_id, ranges, now)
            self.measurements.count(share_id, decision.result)
            return decision

        return self.submit(share_id.coordinator_key, decide)

    @cached_property
    def expiry(self) -> Expiry:
        # Late import: in most topics records do not expire.
        from headwater.broker.shares.expiry import Expiry  # noqa: PLC0415

        return Expiry(self._config.live, self._clock)

    def settle(
        self, share_id: SharePartitionId, hold: MemberId, offsets: Collection[int], verdict: Verdict
    ) -> Pending[Outcome[Settled]]:
        """The same verdict on records that one receive holds."""

        def decide(machine: ShareMachine, _ticket: Ticket, now: Now) -> Decision[Settled]:
            decision = machine.decide_settle(share_id, hold, offsets, verdict, now)
            self.measurements.count(share_id, decision.result.acknowledged)
            return decision

        return self.submit(share_id.coordinator_key, decide)

    def take_back(self, share_id: SharePartitionId, hold: MemberId, first: int = 0) -> None:
        """What a receive acquired from offset `first` on does not reach its client. The delivery does not count."""

        def decide(machine: ShareMachine, _ticket: Ticket, _now: Now) -> Decision[int]:
            decision = machine.decide_return(share_id, hold, first)
            self.measurements.count_delivered(share_id, -decision.result)
            return decision

        self.submit(share_id.coordinator_key, decide)

    def release_all(self, share_ids: Iterable[SharePartitionId], member_id: MemberId) -> None:
        """Give back what the member holds of these: it ended its session, or its connection."""
        for share_id in share_ids:
            self.submit(
                share_id.coordinator_key,
                lambda machine, _ticket, now, share_id=share_id: machine.decide_release_all(share_id, member_id, now),
            )

    def log_start_moved(self, share_id: SharePartitionId, log_start_offset: int) -> None:
        """Records before that offset were deleted."""
        self.submit(
            share_id.coordinator_key,
            lambda machine, _ticket, _now: machine.decide_log_start(share_id, log_start_offset),
        )

    def leader_epoch_moved(self, share: SharePartition, partition: Partition) -> None:
        """The log may have lost records since the group acknowledged them: they were not on disk when power failed."""
        share_id, leader_epoch = share.id, partition.leader_epoch
        ended = partition.end_of_epoch(share.leader_epoch)
        # A log that knows nothing of that epoch has only older records.
        end_offset = ended.end_offset if ended.epoch >= 0 else partition.end_offset
        self.submit(
            share_id.coordinator_key,
            lambda machine, _, now: machine.decide_leader_epoch(share_id, leader_epoch, end_offset, now),
        )

    # -- waiting fetches

    def wait_for(self, share_ids: Iterable[SharePartitionId], fetch: ShareFetch) -> None:
        for share_id in share_ids:
            self._waiting.setdefault(share_id, set()).add(fetch)

    def forget_waiting(self, share_ids: Iterable[SharePartitionId], fetch: ShareFetch) -> None:
        for share_id in share_ids:
            waiting = self._waiting.get(share_id)
            if waiting is not None:
                waiting.discard(fetch)
                if not waiting:
                    del self._waiting[share_id]

    def _perform_effect(self, effect: object) -> None:
        if isinstance(effect, RecordsGivenUp):
            self.measurements.outlived.value += effect.expired
            if effect.has_letters:
                self._dead_letters().start(effect.id)
            return
        assert isinstance(effect, RecordsAvailable)
        if effect.expired or effect.exhausted:
            self.measurements.count_expired(effect.id, effect.expired, effect.exhausted)
        for fetch in tuple(self._waiting.get(effect.id, ())):
            fetch.read_soon()

    # -- dead letters

    def _dead_letters(self) -> DeadLetterWriter:
        if self._dead_letter_writer is None:
            # Late import: most share groups have no dead letters.
            from headwater.broker.shares.dead_letters import DeadLetterWriter  # noqa: PLC0415

            self._dead_letter_writer = DeadLetterWriter(
                self,
                self._topics,
                self._partitions,
                self._catalog,
                self._config,
                self._producer_ids,
                self._audit,
                self._clock,
            )
        return self._dead_letter_writer

    # -- measurements

    def declare(self, metrics: Metrics) -> None:
        self.measurements.declare(metrics)

        def statuses() -> Iterator[ShareStatus]:
            return (share.status() for machine in self.machines() for share in machine.partitions.values())

        ShareGauges(statuses, self._partition_of).declare(metrics)

    def _partition_of(self, status: ShareStatus) -> Partition | None:
        topic = self._catalog.by_id.get(status.id.topic_id)
        return None if topic is None else self._partitions.find(TopicPartition(topic.name, status.id.partition))

    # -- administration

    async def statuses(self, group_id: GroupId) -> list[ShareStatus]:
        outcomes = await self.submit_to_all(lambda machine, _ticket, _now: Decision((), machine.statuses(group_id)))
        found: list[ShareStatus] = []
        for outcome in outcomes:
            if isinstance(outcome, HeadwaterError):
                raise outcome
            found += outcome
        return found

    async def restart_at(self, share_id: SharePartitionId, start_offset: int, leader_epoch: int) -> Outcome[None]:
        await self.prepare()
        return await self.submit(
            share_id.coordinator_key,
            lambda machine, _, now: machine.decide_restart(share_id, start_offset, leader_epoch, now),
        ).wait()

    def delete_group(self, group_id: GroupId) -> Pending[Outcome[None]]:
        """Delete a share group without members, and what it has done with."""
        outcome: Pending[Outcome[None]] = Pending()
        deletion = asyncio.create_task(self._delete_group(group_id))
        # The loop itself keeps no task alive.
        self._deletions.add(deletion)
        deletion.add_done_callback(self._deletions.discard)
        deletion.add_done_callback(lambda done: outcome.resolve(done.result()))
        return outcome

    async def _delete_group(self, group_id: GroupId) -> HeadwaterError | None:
        refusal = await self._groups.check_empty_share_group(group_id).wait()
        if refusal is not None:
            return refusal
        try:
            # First: a crash leaves a group that has forgotten what it did, and not what nobody could delete.
            await self.forget(group_id)
        except HeadwaterError as error:
            return error
        return await self._groups.delete(group_id).wait()

    async def forget(self, group_id: GroupId, topic_id: TopicId | None = None) -> None:
        """Forget what the group has done with, in one topic or in all. Raises if it cannot be forgotten now."""
        await self._forget(lambda share_id: share_id.group_id == group_id and topic_id in (None, share_id.topic_id))

    async def forget_deleted_topics(self, has_topic: Callable[[TopicId], bool]) -> None:
        # What cannot be forgotten now is forgotten when its shard is loaded again.
        def concerns(share_id: SharePartitionId) -> bool:
            return not has_topic(share_id.topic_id)

        await self.submit_to_all(lambda machine, _ticket, _now: machine.decide_forget(concerns))
        self.measurements.forget(concerns)

    async def _forget(self, concerns: Callable[[SharePartitionId], bool]) -> None:
        for outcome in await self.submit_to_all(lambda machine, _ticket, _now: machine.decide_forget(concerns)):
            if isinstance(outcome, HeadwaterError):
                raise outcome
        self.measurements.forget(concerns)

    def end_waits(self) -> None:
        super().end_waits()
        for waiting in tuple(self._waiting.values()):
            for fetch in tuple(waiting):
                fetch.expire()

    async def stop(self) -> None:
        for task in tuple(self._beginning.values()):
            task.cancel()
        await asyncio.gather(*self._beginning.values(), return_exceptions=True)
        if self._dead_letter_writer is not None:
            await self._dead_letter_writer.stop()
        await super().stop()
