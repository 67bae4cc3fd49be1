"""Scheduled records: every command to the machines over `__headwater_schedule`, and the deliveries that they ask for.

The topic is created when the first delayed record is produced. A refused command is an outcome, never raised.
"""

# Lazy annotations: nested functions are defined per request.
from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from headwater.broker.catalog.effective_config import EffectiveConfig
from headwater.broker.catalog.hosted_partitions import HostedPartitions
from headwater.broker.partition import Partition
from headwater.broker.pending import Pending
from headwater.broker.schedule.delivery import Delivery, OtherSequence
from headwater.broker.schedule.log import ScheduleLog
from headwater.broker.schedule.measurements import ScheduleMeasurements
from headwater.broker.schedule.production import Production, StageRest
from headwater.broker.shards.shard import Outcome
from headwater.broker.shards.sharded_topic import ShardedTopic, ShardedTopicDefinition, refused
from headwater.broker.topics import Topic, Topics
from headwater.broker.transactions.coordinator import TransactionCoordinator, TransactionMembership
from headwater.broker.writes.check_threads import RequestBytes
from headwater.broker.writes.intake import DelayedBatch
from headwater.broker.writes.journal import Append, Journal
from headwater.clock import Clock
from headwater.config.topic import TopicConfig
from headwater.coordination.catalog.topic_names import SCHEDULE_TOPIC
from headwater.coordination.decisions import Decision, Now, Ticket
from headwater.coordination.schedule.commands import Deliver, Schedule
from headwater.coordination.schedule.machine import ScheduleMachine
from headwater.coordination.schedule.target_schedule import SEQUENCE_MASK
from headwater.coordination.schedule.terms import ProducedBatch, Target
from headwater.coordination.transactions.commands import ProducerIdentity
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import ProducerId, TopicId, TopicName, TopicPartition
from headwater.metrics import Metrics, Sample
from headwater.protocol.batches.batch import Marker

if TYPE_CHECKING:
    from headwater.broker.pending import Fault
    from headwater.broker.schedule.administration import ScheduleAdministration

logger = logging.getLogger(__name__)

# So many deliveries read and append at once: it bounds their memory.
DELIVERIES_AT_ONCE = 32


class ScheduleCoordinator(ShardedTopic[ScheduleMachine]):
    def __init__(
        self,
        topics: Topics,
        partitions: HostedPartitions,
        config: EffectiveConfig,
        transactions: TransactionCoordinator,
        journal: Journal,
        clock: Clock,
    ) -> None:
        self.measurements = ScheduleMeasurements()
        self._config = config
        self._transactions = transactions
        self._loop = asyncio.get_running_loop()
        self._deliveries: dict[Target, asyncio.Task[None]] = {}
        self._at_once = asyncio.Semaphore(DELIVERIES_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        current = config.live.current
        overrides = {
            "segment.bytes": str(current.headwater_schedule_segment_bytes),
            # A tombstone is needed until the record before it is gone, which one round of compaction sees to.
            "delete.retention.ms": "60000",
        }
        definition = ShardedTopicDefinition(
            SCHEDULE_TOPIC,
            lambda: current.headwater_schedule_partitions,
            lambda: overrides,
            ScheduleLog,
            lambda: ScheduleMachine(self._has_topic, self._has_batch, self._refusal_of_more),
        )
        super().__init__(definition, topics, partitions, journal, clock, self._perform)
        topics.on_deleted(self._forget_deleted_topics)

    def _has_topic(self, topic_id: TopicId) -> bool:
        return self._topics.find_by_id(topic_id) is not None

    def _find(self, target: Target) -> Partition | None:
        topic = self._topics.find_by_id(target.topic_id)
        return None if topic is None else self._partitions.find(TopicPartition(topic.name, target.partition))

    def _has_batch(self, target: Target, batch: ProducedBatch) -> bool:
        partition = self._find(target)
        state = None if partition is None else partition.producer(batch.producer_id)
        if state is None or state.producer_epoch < batch.producer_epoch:
            return False
        if state.producer_epoch > batch.producer_epoch:
            # Nobody can send it again.
            return True
        ahead = (state.last_sequence - batch.last_sequence) & SEQUENCE_MASK
        return ahead < SEQUENCE_MASK // 2

    def _refusal_of_more(self, topic_id: TopicId, count: int) -> HeadwaterError | None:
        topic = self._topics.find_by_id(topic_id)
        if topic is None:
            return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the topic is gone")
        topic_max = self.config_of(topic).headwater_delay_pending_max
        if self.count_of(topic_id) + count > topic_max:
            return Refusal(
                ErrorCode.POLICY_VIOLATION,
                f"at most {topic_max} records of '{topic.name}' may be scheduled (headwater.delay.pending.max)",
            )
        total_max = self._config.live.current.headwater_schedule_pending_max
        if sum(machine.count for machine in self.machines()) + count > total_max:
            return Refusal(
                ErrorCode.POLICY_VIOLATION,
                f"at most {total_max} records of all topics may be scheduled (headwater.schedule.pending.max)",
            )
        return None

    @cached_property
    def administration(self) -> ScheduleAdministration:
        # Late import: few requests are about schedules.
        from headwater.broker.schedule.administration import ScheduleAdministration  # noqa: PLC0415

        return ScheduleAdministration(self, self._topics, self._partitions)

    def config_of(self, topic: Topic) -> TopicConfig:
        return self._config.of_topic(topic)

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def count_of(self, topic_id: TopicId) -> int:
        return sum(machine.counts[topic_id] for machine in self.machines())

    # -- produced batches

    def produce(
        self,
        partition: Partition,
        delayed: DelayedBatch,
        append: Append,
        *,
        membership: TransactionMembership | None,
        request: RequestBytes | None,
        stage_rest: StageRest,
    ) -> None:
        """Schedule the delayed records of a batch, then `stage_rest`. A refusal is raised at once or told to `append`;
        the client's connection is held meanwhile."""
        header = delayed.header
        if header.producer_id >= 0 and partition.recognises(header):
            # The target has the batch, so the schedule had the records before.
            stage_rest(append=append)
            return
        topic = self._topics.existing(partition.id.topic)
        target = Target(topic.id, partition.id.partition)
        production = Production(self, partition, target, delayed, append, request, stage_rest)
        if self.shards:
            self._enter(production, target, membership, partition)
        else:
            self._in_task(self._prepare_and_enter(production, target, membership, partition))

    async def _prepare_and_enter(
        self, production: Production, target: Target, membership: TransactionMembership | None, partition: Partition
    ) -> None:
        try:
            await self.prepare()
        except HeadwaterError as error:
            production.scheduled(error)
        else:
            self._enter(production, target, membership, partition)

    def _enter(
        self, production: Production, target: Target, membership: TransactionMembership | None, partition: Partition
    ) -> None:
        if membership is None:
            self._schedule(production, target)
            return
        # The target first: a client of the older protocol has added it before.
        header = production.delayed.header
        producer = ProducerIdentity(ProducerId(header.producer_id), header.producer_epoch)
        where = self.log_of(target.key)

        def joined(refusal: HeadwaterError | Fault | None) -> None:
            if refusal is not None:
                production.scheduled(refusal)
            else:
                self._transactions.join_internal(membership, producer, where).then(entered)

        def entered(refusal: HeadwaterError | Fault | None) -> None:
            if refusal is not None:
                production.scheduled(refusal)
            else:
                # At once, while the transaction is known to be open: after its end the records would wait forever.
                self._schedule(production, target)

        self._transactions.join(membership, producer, partition.id).then(joined)

    def _schedule(self, production: Production, target: Target) -> None:
        delayed = production.delayed
        header = delayed.header
        batch = ProducedBatch(header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence)
        command = Schedule(target, batch, header.is_transactional, delayed.items)
        self.measurements.scheduled.value += len(delayed.items)
        self.submit(target.key, lambda machine, _ticket, _now: machine.decide_schedule(command)).then(
            production.scheduled
        )

    def call_in_turn(self, finish: Callable[[], None]) -> None:
        """Soon, in a turn of its own: what is staged is written when it ends."""

        def turn() -> None:
            self._journal.begin_turn()
            try:
                finish()
            finally:
                self._journal.end_turn()

        self._loop.call_soon(turn)

    def confirm(self, target: Target, first_offset: int) -> None:
        """The target has the batch whose delayed records begin at `first_offset`."""
        self.submit_write_behind(target.key, lambda machine, _, now: machine.decide_appended(target, first_offset, now))

    def withdraw(self, target: Target, first_offset: int) -> Pending[Outcome[bool]]:
        return self.submit(target.key, lambda machine, _ticket, _now: machine.decide_withdraw(target, first_offset))

    def end_transaction(
        self, partition: int, producer_id: ProducerId, epoch: int, marker: Marker, transaction_version: int
    ) -> Pending[Outcome[None]]:
        """End a producer's transaction in one partition of the schedule; None when the marker is on disk."""
        if not 0 <= partition < len(self.shards):
            return refused(
                Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{SCHEDULE_TOPIC} has no partition {partition}")
            )

        def decide(machine: ScheduleMachine, _ticket: Ticket, now: Now) -> Decision[None]:
            return machine.decide_end_transaction(producer_id, epoch, marker, transaction_version, now)

        return self.shards[partition].submit(decide)

    # -- deliveries

    def _perform(self, effect: object) -> None:
        assert isinstance(effect, Deliver)
        # A machine that was loaded again asks for what is already under way.
        if effect.target not in self._deliveries:
            task = self._loop.create_task(self._deliver(effect), name="deliver")
            self._deliveries[effect.target] = task

    async def _deliver(self, deliver: Deliver) -> None:
        target = deliver.target
        log = self._partitions.by_topic[SCHEDULE_TOPIC][self.partition_of(target.key)]
        delivery = Delivery(deliver, log, lambda: self._find(target), self._at_once, self._clock, self.measurements)
        try:
            is_delivered = await delivery.run()
        except OtherSequence as expected:
            logger.warning("schedule and partition %d of %s differ: %s", target.partition, target.topic_id, expected)
            self._delivered(target, deliver.base_sequence, expected.next_sequence)
        except Exception:
            # It is tried again when the machine is loaded again.
            logger.exception("a delivery failed")
            del self._deliveries[target]
        else:
            if is_delivered:
                self._delivered(target, deliver.base_sequence)
            else:
                del self._deliveries[target]

    def _delivered(self, target: Target, base_sequence: int, other_sequence: int | None = None) -> None:
        # First: the next delivery may be asked for at once.
        del self._deliveries[target]
        if other_sequence is None:
            self.submit_write_behind(
                target.key, lambda machine, _, now: machine.decide_delivered(target, base_sequence, now)
            )
        else:
            self.submit(
                target.key,
                lambda machine, _ticket, _now: machine.decide_begin_again(target, base_sequence, other_sequence),
            )

    def _in_task(self, work: Coroutine[object, object, None]) -> None:
        task = self._loop.create_task(work)
        # The loop itself keeps no task alive.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- the end

    async def _forget_deleted_topics(self, _: TopicName) -> None:
        # What cannot be forgotten now is forgotten when its shard is loaded again.
        await self.submit_to_all(lambda machine, _ticket, now: machine.decide_forget(now))

    # -- measurements

    def declare(self, metrics: Metrics) -> None:
        self.measurements.declare(metrics)
        metrics.declare(
            "headwater_schedule_pending", "gauge", "Records that are scheduled, by topic.", self._pending_samples
        )

    def _pending_samples(self) -> Iterator[Sample]:
        topic_ids = {topic_id for machine in self.machines() for topic_id in machine.counts}
        for topic_id in topic_ids:
            topic = self._topics.find_by_id(topic_id)
            if topic is not None:
                yield Sample((("topic", topic.name),), self.count_of(topic_id))

    async def stop(self) -> None:
        tasks = [*self._tasks, *self._deliveries.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await super().stop()
