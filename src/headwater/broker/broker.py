"""The façade that every listener calls. It owns all state, on one event loop."""

# Or else the annotations of inner functions would be evaluated at every call of the outer one.
from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from headwater.broker.catalog.catalog import Catalog, Change
from headwater.broker.groups.coordinator import GroupCoordinator
from headwater.broker.housekeeping import Housekeeping
from headwater.broker.partition import ACKS_ALL, Append, Partition
from headwater.broker.pending import Pending
from headwater.broker.reads.fetch import Fetch, PartitionFetch
from headwater.broker.shards.shard import Outcome
from headwater.broker.transactions.coordinator import TransactionCoordinator, TransactionMembership
from headwater.broker.transactions.sequence_guard import SequenceGuard
from headwater.broker.writes import intake
from headwater.broker.writes.journal import Journal
from headwater.clock import Clock
from headwater.config.broker import BrokerConfig
from headwater.coordination.catalog.events import Topic
from headwater.coordination.catalog.topic_names import OFFSETS_TOPIC, is_internal
from headwater.coordination.groups.offsets.commands import Commit
from headwater.coordination.transactions.commands import ProducerIdentity
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import GroupId, ProducerId, TopicId, TopicName, TopicPartition
from headwater.protocol.batches import batch as batches
from headwater.storage.data_directory import DataDirectory
from headwater.storage.producers.states import NO_OFFSET

logger = logging.getLogger(__name__)

PROGRESS_INTERVAL_MS = 2000
# This node is the only replica of everything it holds.
IN_SYNC_REPLICAS = 1


class Broker:
    def __init__(self, config: BrokerConfig, clock: Clock, data: DataDirectory) -> None:
        self.clock = clock
        self.data = data
        self.journal = Journal(clock)
        # What the files and the environment say; changes made through the protocol lie over it.
        self._static_config = config
        self._progress_ms = clock.monotonic_ms()
        try:
            self.catalog = Catalog(data, config, clock, self.journal)
            self.config = self._effective_config()
            self.catalog.check_config(self.config)
            self.catalog.open_partitions(self.config, self._report_progress)
        except BaseException:
            self.journal.close()
            raise
        self.groups = GroupCoordinator(self.catalog, lambda: self.config, self.journal, clock)
        self.transactions = TransactionCoordinator(self.catalog, self.groups, lambda: self.config, self.journal, clock)
        self._first_sequences = SequenceGuard()
        self.housekeeping = Housekeeping(self)
        self.housekeeping.start()

    @property
    def cluster_id(self) -> str:
        return self.data.cluster_id

    def _report_progress(self, opened: int, total: int) -> None:
        now_ms = self.clock.monotonic_ms()
        if now_ms - self._progress_ms >= PROGRESS_INTERVAL_MS:
            self._progress_ms = now_ms
            logger.info("opened %d of %d partitions", opened, total)

    # -- partitions

    def partition(self, topic: str, index: int) -> Partition:
        partitions = self.catalog.partitions.get(topic)  # pyright: ignore[reportArgumentType] (a name is a string)
        if partitions is not None and 0 <= index < len(partitions):
            return partitions[index]
        raise self.catalog.unknown(topic, index)

    def topic(self, name: str) -> Topic | None:
        return self.catalog.topics.by_name.get(TopicName(name))

    def topic_by_id(self, topic_id: TopicId) -> Topic | None:
        return self.catalog.topics.by_id.get(topic_id)

    def produce(
        self, partition: Partition, records: memoryview, append: Append, *, acks: int, in_transaction: bool = False
    ) -> None:
        """Checks and stages one batch; `append` hears when it is acknowledged. A refusal is raised at once."""
        if partition.is_internal:
            raise _internal(partition.id.topic)
        if acks == ACKS_ALL and partition.config.min_insync_replicas > IN_SYNC_REPLICAS:
            raise Refusal(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{partition.id} has {IN_SYNC_REPLICAS} replica in sync, "
                f"{partition.config.min_insync_replicas} are asked for (min.insync.replicas)",
            )
        now_ms = self.clock.now_ms()
        header, batch = intake.admit(records, partition.config, self.config, now_ms)
        if header.is_transactional is not in_transaction:
            raise Refusal(
                ErrorCode.INVALID_TXN_STATE, "a batch is transactional where its request names a transactional id"
            )
        partition.stage(header, batch, append, acks=acks, now_ms=now_ms)

    def produce_in_transaction(
        self, partition: Partition, records: memoryview, append: Append, *, acks: int, membership: TransactionMembership
    ) -> None:
        """The first batch that a transaction writes to a partition waits until the coordinator knows of the partition:
        otherwise a batch that comes too late would open a transaction there that nobody ends."""
        header = batches.read_header(records)
        producer = ProducerIdentity(ProducerId(header.producer_id), header.producer_epoch)
        state = partition.log.producers.get(header.producer_id)
        is_open = (
            state is not None
            and state.producer_epoch == header.producer_epoch
            and state.current_txn_first_offset != NO_OFFSET
        )
        must_join = membership.adds_partitions or self.config.transaction_partition_verification_enable
        may_enter = (is_open or not must_join) and not self.transactions.is_joining(producer.producer_id, partition.id)
        # A plain batch joins nothing: it is refused.
        if may_enter or not header.is_transactional:
            self.produce(partition, records, append, acks=acks, in_transaction=True)
            return
        joins = self.transactions.join(membership, producer, partition.id)
        if not joins.is_done:
            # What was received stays where it is only until the end of the turn.
            records = memoryview(bytearray(records))

        def joined(refusal: HeadwaterError | None) -> None:
            is_stranger = partition.log.producers.get(producer.producer_id) is None
            try:
                if refusal is not None:
                    if is_stranger and refusal.code is ErrorCode.NOT_ENOUGH_REPLICAS:
                        self._first_sequences.turn_away(header, partition.id)
                    raise refusal
                if is_stranger:
                    # In protocol 2 each transaction begins at sequence 0.
                    self._first_sequences.begin(header, partition.id, at_zero=membership.adds_partitions)
                self.produce(partition, records, append, acks=acks, in_transaction=True)
            except HeadwaterError as error:
                append.fail(error)

        joins.then(joined)

    def commit_in_transaction(
        self, group_id: GroupId, commit: Commit, producer: ProducerIdentity, membership: TransactionMembership
    ) -> Pending[Outcome[Sequence[ErrorCode]]]:
        """Offsets of a group that count when the transaction is committed: an error code for each, in their order."""
        outcome: Pending[Outcome[Sequence[ErrorCode]]] = Pending()

        def joined(refusal: HeadwaterError | None) -> None:
            if refusal is not None:
                outcome.resolve(refusal)
                return
            # In the instant in which the coordinator says that the transaction is open: after its end they would be
            # pending for ever.
            self.groups.commit_in_transaction(group_id, commit, *producer).then(outcome.resolve)

        where = TopicPartition(OFFSETS_TOPIC, self.groups.partition_of(group_id))
        self.transactions.join(membership, producer, where).then(joined)
        return outcome

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

    # -- topics

    async def create_topic(
        self, name: str, partition_count: int, overrides: Mapping[str, str], *, validate_only: bool = False
    ) -> Topic:
        if is_internal(name):
            raise _internal(name)
        return await self.catalog.create(name, partition_count, overrides, validate_only=validate_only)

    async def delete_topic(self, name: str) -> Topic:
        """With all that groups have committed for it."""
        if is_internal(name):
            raise _internal(name)
        topic = await self.catalog.delete(name)
        await self.groups.topics_deleted([topic.name])
        return topic

    async def add_partitions(self, name: str, partition_count: int, *, validate_only: bool = False) -> None:
        if is_internal(name):
            raise _internal(name)
        await self.catalog.add_partitions(name, partition_count, validate_only=validate_only)

    async def delete_records(self, topic: str, index: int, offset: int) -> int:
        """Moves the log's start up to `offset` (-1: the high watermark); gives the new start."""
        partition = self.partition(topic, index)
        if partition.is_internal:
            raise _internal(topic)
        partition.check_online()
        if not partition.config.is_deleted_by_retention:
            raise Refusal(
                ErrorCode.POLICY_VIOLATION,
                f"records of '{topic}' cannot be deleted: its cleanup.policy does not contain 'delete'",
            )
        target = partition.high_watermark if offset == -1 else offset
        if not 0 <= target <= partition.high_watermark:
            raise Refusal(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{partition.id} has offsets {partition.start_offset} to {partition.high_watermark}, not {target}",
            )
        garbage = partition.advance_start(max(target, partition.start_offset))
        try:
            await self.housekeeping.collect(garbage)
            await self.housekeeping.checkpoint_start_offsets()
        except OSError as error:
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"deletion from {partition.id} failed: {error}") from error
        return partition.start_offset

    # -- settings

    async def configure_topic(self, name: str, change: Change, *, validate_only: bool) -> None:
        def checked(before: Mapping[str, str]) -> Mapping[str, str]:
            after = change(before)
            if is_internal(name) and after.get("cleanup.policy") != "compact":
                raise Refusal(
                    ErrorCode.INVALID_CONFIG, f"the cleanup.policy of '{name}' stays 'compact': it holds what is known"
                )
            return after

        await self.catalog.configure(name, checked, validate_only=validate_only)

    async def configure_broker(self, change: Change, *, validate_only: bool) -> None:
        """Changes the settings that lie over those of files and environment."""

        def checked(before: Mapping[str, str]) -> Mapping[str, str]:
            after = change(before)
            self.catalog.check_config(self._static_config.changed(after))
            return after

        await self.catalog.configure_broker(checked, validate_only=validate_only)
        self._use_config(self._effective_config())

    def reload(self, config: BrokerConfig) -> None:
        """Takes over what may change while the broker runs; says what would need a restart."""
        reloaded, waiting = self._static_config.reloaded(config)
        effective = reloaded.changed(self.catalog.topics.broker_overrides)
        self.catalog.check_config(effective)
        self._static_config = reloaded
        for name in waiting:
            logger.warning("%s changed, which takes effect only after a restart", name)
        self._use_config(effective)

    def _use_config(self, config: BrokerConfig) -> None:
        self.config = config
        self.catalog.use_config(config)

    def _effective_config(self) -> BrokerConfig:
        return self._static_config.changed(self.catalog.topics.broker_overrides)

    # -- the end

    async def stop(self) -> None:
        """Flushes everything and marks the data directory as cleanly closed."""
        await self.housekeeping.stop()
        await self.transactions.stop()
        await self.groups.stop()
        await self.catalog.settle()
        await self.journal.drain()
        self.journal.close()
        self.data.close({partition.id: partition.log for partition in self.catalog.all_partitions()})

    def end_waits(self) -> None:
        """Ends long polls with what they have, and waits for a rebalance, because the broker is about to stop."""
        self.groups.end_waits()
        self.transactions.end_waits()
        for partition in self.catalog.all_partitions():
            for watcher in tuple(partition.watchers):
                watcher.expire()


def _internal(name: str) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic '{name}' is internal: the broker alone makes and writes it"
    )
