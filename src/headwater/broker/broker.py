"""The façade that every listener calls. It owns all state, on one event loop; every rule is enforced here once."""

# Lazy annotations: nested functions are defined per request.
from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from headwater.broker.access.access import Access
from headwater.broker.audit.event import EventType
from headwater.broker.catalog.effective_config import EffectiveConfig
from headwater.broker.catalog.hosted_partitions import HostedPartitions
from headwater.broker.catalog.local_metadata import LocalMetadata
from headwater.broker.catalog.producer_ids import ProducerIds
from headwater.broker.config_resources import ConfigResources
from headwater.broker.groups.coordinator import GroupCoordinator
from headwater.broker.housekeeping import Housekeeping
from headwater.broker.measurements import Measurements
from headwater.broker.partition import Partition
from headwater.broker.pending import Pending
from headwater.broker.ports.leadership import Leadership
from headwater.broker.reads.fetch import Fetch, PartitionFetch
from headwater.broker.reads.offset_lookup import look_up
from headwater.broker.record_deletion import delete_records
from headwater.broker.shards.shard import Outcome
from headwater.broker.single_node import SingleNode
from headwater.broker.topics import Topics, internal_topic
from headwater.broker.transactions.coordinator import TransactionCoordinator, TransactionMembership
from headwater.broker.transactions.entry import TransactionEntry
from headwater.broker.writes import intake
from headwater.broker.writes.journal import ACKS_ALL, Append, Journal
from headwater.clock import Clock
from headwater.config.broker import BrokerConfig, changed_names
from headwater.coordination.catalog.topic_names import SCHEDULE_TOPIC, SHARE_STATE_TOPIC
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import GroupId, NodeId, TopicId, TopicName
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.compression import Codec
from headwater.protocol.batches.records import Record
from headwater.storage.data_directory import DataDirectory
from headwater.storage.epochs import EpochEnd
from headwater.storage.producers.states import ProducerState
from headwater.storage.time_lookup import TimestampOffset

if TYPE_CHECKING:
    from headwater.broker.audit.audit_log import AuditLog
    from headwater.broker.replicas import Replicas
    from headwater.broker.schedule.coordinator import ScheduleCoordinator
    from headwater.broker.schemas.registry import SchemaRegistry
    from headwater.broker.shares.coordinator import ShareCoordinator
    from headwater.broker.shares.remote_leaders import RemoteLeaders
    from headwater.broker.writes.check_threads import CheckThreads, RequestBytes

logger = logging.getLogger(__name__)

PROGRESS_INTERVAL_MS = 2000


class LogDirectory(NamedTuple):
    """A directory that holds partitions, and the room on its file system."""

    path: str
    total_bytes: int
    usable_bytes: int


class Broker:
    def __init__(self, config: BrokerConfig, clock: Clock, data: DataDirectory) -> None:
        self.clock = clock
        self.data = data
        self.measurements = Measurements(clock)
        self.journal = Journal(clock, config.headwater_flush_engine, self.measurements)
        self._progress_ms = clock.monotonic_ms()
        try:
            metadata = LocalMetadata(data, config, clock, self.journal)
            self.partitions = HostedPartitions(data, clock, self.journal, metadata.partition)
            self._effective = EffectiveConfig(config, metadata, self.partitions)
            opened = [(topic, self._effective.of_topic(topic)) for topic in metadata.state.by_name.values()]
            self.partitions.open(opened, self._report_progress)
        except BaseException:
            self.journal.close()
            raise
        self.metadata = metadata
        # Code that must act on a change of settings follows these.
        self.live_config = self._effective.live
        self.live_config.follow(self._use_config)
        self.leadership: Leadership = SingleNode(
            NodeId(config.node_id), config.broker_rack, metadata.state, self.partitions
        )
        self.producer_ids = ProducerIds(metadata)
        self.topics = Topics(metadata, self.partitions, self._effective, self.leadership)
        self.access = Access(metadata, self.live_config, clock, self._open_audit_log(config))
        self.configs = ConfigResources(metadata, self._effective, self.leadership)
        self.groups = GroupCoordinator(
            self.topics, self.partitions, metadata.state, self._effective, self.leadership, self.journal, clock
        )
        self.topics.on_deleted(self.groups.topic_deleted)
        self.transactions = TransactionCoordinator(
            self.topics,
            self.partitions,
            self.producer_ids,
            self.groups,
            self._effective,
            self.leadership,
            self.journal,
            clock,
            {SCHEDULE_TOPIC: self._end_scheduling, SHARE_STATE_TOPIC: self._end_settlements},
        )
        self._transaction_entry = TransactionEntry(self.transactions, self.live_config, clock, self.produce)
        if SCHEDULE_TOPIC in self.partitions.by_topic:
            # What is due waits for no client.
            _ = self.schedule
        self._shares: ShareCoordinator | None = None
        self.topics.on_deleted(self._forget_shares)
        if SHARE_STATE_TOPIC in self.partitions.by_topic:
            self._load_shares()
        self.measurements.observe(self)
        self.housekeeping = Housekeeping(self)
        self.housekeeping.start()

    @cached_property
    def schedule(self) -> ScheduleCoordinator:
        """Records that are delivered later, from the first one on."""
        # Late import: most brokers deliver every record at once.
        from headwater.broker.schedule.coordinator import ScheduleCoordinator  # noqa: PLC0415

        schedule = ScheduleCoordinator(
            self.topics, self.partitions, self._effective, self.transactions, self.journal, self.clock
        )
        schedule.declare(self.measurements.metrics)
        return schedule

    def _end_scheduling(self, *end: Any) -> Pending[Outcome[None]]:
        return self.schedule.end_transaction(*end)

    def _end_settlements(self, *end: Any) -> Pending[Outcome[None]]:
        return self.shares.transactional_queue.end(*end)

    @property
    def shares(self) -> ShareCoordinator:
        """The share-partitions, from the first share group on."""
        return self._shares or self._load_shares()

    def _load_shares(self) -> ShareCoordinator:
        # Late import: most brokers have no share groups.
        from headwater.broker.shares.coordinator import ShareCoordinator  # noqa: PLC0415

        shares = self._shares = ShareCoordinator(
            self.topics,
            self.partitions,
            self.metadata.state,
            self._effective,
            self.groups,
            self.producer_ids,
            self.transactions,
            self.access.audit,
            self.journal,
            self.clock,
        )
        shares.declare(self.measurements.metrics)
        return shares

    @cached_property
    def remote_share_leaders(self) -> RemoteLeaders:
        # Late import: only other brokers need it.
        from headwater.broker.shares.remote_leaders import RemoteLeaders  # noqa: PLC0415

        return RemoteLeaders(self.shares, self.topics)

    @cached_property
    def schemas(self) -> SchemaRegistry:
        """The schema registry, where the broker is one."""
        if not self.config.headwater_schemas_enable:
            raise Refusal(ErrorCode.RESOURCE_NOT_FOUND, "this broker is no schema registry (headwater.schemas.enable)")
        # Late import: most brokers are none.
        from headwater.broker.schemas.registry import SchemaRegistry  # noqa: PLC0415

        return SchemaRegistry(self.topics, self.partitions, self._effective, self.journal, self.clock)

    async def _forget_shares(self, _: TopicName) -> None:
        if self._shares is not None:
            await self._shares.forget_deleted_topics(self.metadata.state.by_id.__contains__)

    async def prune_shares(self) -> None:
        if self._shares is not None:
            # Late import, as above.
            from headwater.broker.shares.prune import prune  # noqa: PLC0415

            await prune(self._shares, self.partitions, self.housekeeping.collect)

    def delete_group(self, group_id: GroupId) -> Pending[Outcome[None]]:
        """Delete a group without members, and all that it stored."""
        if self.groups.is_share_group(group_id):
            return self.shares.delete_group(group_id)
        return self.groups.delete(group_id)

    def _open_audit_log(self, config: BrokerConfig) -> AuditLog | None:
        if not config.is_audited:
            return None
        # Late import: most brokers record nothing.
        from headwater.broker.audit.audit_log import AuditLog  # noqa: PLC0415

        audit = AuditLog(self.topics, self.partitions, self.leadership.node_id, self.clock, config)
        audit.declare(self.measurements.metrics)
        self.live_config.follow(audit.use_config)
        return audit

    @cached_property
    def replicas(self) -> Replicas:
        # Late import: few administrators ask a single node for this.
        from headwater.broker.replicas import Replicas  # noqa: PLC0415

        return Replicas(self.topics, self.leadership, self.data)

    async def start(self) -> None:
        """What has to be done before the first client is served."""
        await self.access.start()
        if self.config.headwater_schemas_enable:
            await self.schemas.start()

    def _use_config(self, config: BrokerConfig) -> None:
        self.config = config

    @property
    def cluster_id(self) -> str:
        return self.data.cluster_id

    def _report_progress(self, opened: int, total: int) -> None:
        now_ms = self.clock.monotonic_ms()
        if now_ms - self._progress_ms >= PROGRESS_INTERVAL_MS:
            self._progress_ms = now_ms
            logger.info("opened %d of %d partitions", opened, total)

    def reload(self, config: BrokerConfig) -> None:
        """Take over what may change while the broker runs; log what would need a restart."""
        before, audit = self.config, self.access.audit
        try:
            self._effective.reload(config)
        except HeadwaterError as error:
            if audit is not None:
                audit.record_local(EventType.CONFIG_CHANGE, "broker", {"by": "reload"}, error=error)
            raise
        if audit is not None:
            names = ",".join(changed_names(before, self.config))
            audit.record_local(EventType.CONFIG_CHANGE, "broker", {"by": "reload", "settings": names})

    # -- partitions

    def partition(self, topic: str, index: int) -> Partition:
        partitions = self.partitions.by_topic.get(topic)  # pyright: ignore[reportArgumentType] (a name is a string)
        if partitions is not None and 0 <= index < len(partitions):
            return partitions[index]
        raise self.topics.unknown_partition(topic, index)

    def partition_by_id(self, topic_id: TopicId, index: int) -> Partition:
        topic = self.metadata.state.by_id.get(topic_id)
        return self.partition((topic or self.topics.existing_by_id(topic_id)).name, index)

    def online_partition(self, topic: str, index: int, leader_epoch: int = -1) -> Partition:
        """A partition that is in service, for a client that knows its leader epoch, or -1 if it knows none."""
        partition = self.partition(topic, index)
        partition.check_online()
        partition.check_leader_epoch(leader_epoch)
        return partition

    # -- writing

    def produce(
        self,
        partition: Partition,
        records: memoryview,
        append: Append,
        *,
        acks: int,
        in_transaction: bool = False,
        request: RequestBytes | None = None,
        admit: intake.Admit = intake.admit,
    ) -> None:
        """Check and stage one batch; `append` completes when it is acknowledged. A refusal is raised at once.

        A large batch is checked in a thread first. `request` then holds its bytes; without one they are this batch's
        own."""
        if partition.is_internal:
            raise internal_topic(partition.id.topic)
        if acks == ACKS_ALL and partition.config.min_insync_replicas > 1:
            self._check_in_sync(partition)
        now_ms = self.clock.now_ms()
        try:
            header, batch = admit(records, partition.config, self.config, now_ms)
        except intake.DelayedBatch as delayed:
            if in_transaction:
                raise
            rest = memoryview(delayed.rest)
            stage_rest = partial(self.produce, partition, rest, acks=acks, admit=intake.admit_checked)
            self.schedule.produce(partition, delayed, append, membership=None, request=request, stage_rest=stage_rest)
            return
        except intake.LargeBatch:
            if in_transaction:
                raise
            produce = partial(self.produce, partition, append=append, acks=acks, request=request)
            self._check_threads.check(records, partition, self.config, append, request, produce)
            return
        if header.is_transactional is not in_transaction:
            raise intake.misplaced(header)
        partition.stage(header, batch, append, acks=acks, now_ms=now_ms)

    @cached_property
    def _check_threads(self) -> CheckThreads:
        # Late import: most brokers get no large batches.
        from headwater.broker.writes.check_threads import CheckThreads  # noqa: PLC0415

        count = self.config.headwater_batch_check_threads
        return CheckThreads(count, self.journal, self.clock, self.measurements.batch_check_us)

    def _check_in_sync(self, partition: Partition) -> None:
        in_sync_count = self.leadership.in_sync_count(partition.id)
        needed = partition.config.min_insync_replicas
        if needed > in_sync_count:
            raise Refusal(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{partition.id} has {in_sync_count} replica in sync, {needed} are asked for (min.insync.replicas)",
            )

    def append(
        self, partition: Partition, records: Iterable[Record], *, acks: int = ACKS_ALL, codec: int = Codec.NONE
    ) -> Pending[Append]:
        """Write records, for listeners whose clients send no ready batches; a refusal is in the Append's `error`."""
        outcome: Pending[Append] = Pending()
        append = Append(outcome.resolve)
        try:
            built = batches.build(list(records), codec=codec)
            self.produce(partition, memoryview(built), append, acks=acks)
        except HeadwaterError as error:
            append.fail(error)
        return outcome

    def produce_in_transaction(
        self,
        partition: Partition,
        records: memoryview,
        append: Append,
        *,
        acks: int,
        membership: TransactionMembership,
        request: RequestBytes | None = None,
        admit: intake.Admit = intake.admit,
    ) -> None:
        """As `produce`, for a request that names a transactional id."""
        try:
            self._transaction_entry.enter(partition, records, append, acks, membership, admit)
        except intake.DelayedBatch as delayed:
            rest = memoryview(delayed.rest)
            produce = partial(
                self.produce_in_transaction,
                partition,
                rest,
                acks=acks,
                membership=membership,
                admit=intake.admit_checked,
            )
            self.schedule.produce(
                partition, delayed, append, membership=membership, request=request, stage_rest=produce
            )
        except intake.LargeBatch:
            # Nothing is decided before the batch is checked: the transaction may have ended by then.
            produce = partial(
                self.produce_in_transaction,
                partition,
                append=append,
                acks=acks,
                membership=membership,
                request=request,
            )
            self._check_threads.check(records, partition, self.config, append, request, produce)

    async def delete_records(self, topic: str, index: int, offset: int) -> int:
        """Move the log's start up to `offset` (-1: the high watermark); gives the new start."""
        return await delete_records(self.partition(topic, index), offset, self.housekeeping, self.partitions)

    # -- reading

    def fetch(
        self, fetches: Sequence[PartitionFetch], *, bytes_min: int, bytes_max: int, wait_ms: int, committed_only: bool
    ) -> Fetch:
        return Fetch(
            fetches,
            bytes_min=bytes_min,
            bytes_max=min(bytes_max, self.config.fetch_max_bytes),
            wait_ms=wait_ms,
            committed_only=committed_only,
        )

    async def look_up_offset(
        self, topic: str, index: int, timestamp: int, *, leader_epoch: int = -1, committed_only: bool
    ) -> TimestampOffset:
        """The offset of a time, or of a `Place` in the log."""
        partition = self.online_partition(topic, index, leader_epoch)
        return await look_up(partition, timestamp, committed_only=committed_only)

    def end_of_epoch(self, topic: str, index: int, epoch: int, leader_epoch: int = -1) -> EpochEnd:
        """Where a leader epoch ended, so that a client finds out whether what it read was cut off."""
        return self.online_partition(topic, index, leader_epoch).end_of_epoch(epoch)

    def producers(self, topic: str, index: int) -> Iterable[ProducerState]:
        """The idempotent and transactional producers that a partition knows."""
        return self.online_partition(topic, index).producers

    def log_directory(self) -> LogDirectory:
        total_bytes, usable_bytes = self.data.volume_bytes()
        return LogDirectory(str(self.data.root), total_bytes, usable_bytes)

    def hosted(self, topic: TopicName) -> Sequence[Partition]:
        """The partitions of a topic that this node holds."""
        return self.partitions.by_topic.get(topic, ())

    # -- the end

    async def stop(self) -> None:
        """Flush everything and mark the data directory as cleanly closed."""
        if "_check_threads" in vars(self):
            await self._check_threads.stop()
        await self.housekeeping.stop()
        await self.access.stop()
        if "schedule" in vars(self):
            await self.schedule.stop()
        if self._shares is not None:
            await self._shares.stop()
        if self.config.headwater_schemas_enable:
            await self.schemas.stop()
        await self.transactions.stop()
        await self.groups.stop()
        async with self.metadata.change_lock:
            # Changes that were under way are done.
            pass
        await self.journal.drain()
        self.journal.close()
        self.partitions.close()

    def end_waits(self) -> None:
        """End long polls with what they have, and waits for a rebalance, because the broker is about to stop."""
        self.groups.end_waits()
        if self._shares is not None:
            self._shares.end_waits()
        self.transactions.end_waits()
        for partition in self.partitions.all():
            for watcher in tuple(partition.watchers):
                watcher.expire()
