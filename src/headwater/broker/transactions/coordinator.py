"""Transactions: every command to the machines over `__transaction_state`, and the markers that carry out decisions.

A decision to commit or abort is on disk before its markers are written. Markers are written again until each is on
disk; after a restart, the log says which are still missing.
"""

# Lazy annotations: nested functions are defined per request.
from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, cast

from headwater.broker.catalog.effective_config import EffectiveConfig
from headwater.broker.catalog.hosted_partitions import HostedPartitions
from headwater.broker.catalog.producer_ids import ProducerIds
from headwater.broker.groups.coordinator import GroupCoordinator
from headwater.broker.pending import Fault, Pending
from headwater.broker.ports.leadership import Leadership
from headwater.broker.shards.shard import Outcome
from headwater.broker.shards.sharded_topic import ShardedTopic, ShardedTopicDefinition, refused
from headwater.broker.topics import Topics
from headwater.broker.transactions.markers import MarkerWriter
from headwater.broker.writes.journal import Append, Journal
from headwater.clock import Clock
from headwater.coordination.catalog.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from headwater.coordination.decisions import Decision, Now, Ticket
from headwater.coordination.transactions.commands import (
    PROTOCOL_1,
    PROTOCOL_2,
    EndTransaction,
    InitProducer,
    ProducerIdentity,
    PublishBatch,
    PublishResult,
    StagedWriter,
    TransactionDescription,
    TransactionListing,
    WriteMarkers,
)
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import NO_PRODUCER_ID, GroupId, ProducerId, TopicPartition, TransactionalId, application_of
from headwater.protocol.batches.batch import Marker

if TYPE_CHECKING:
    from headwater.broker.partition import Partition
    from headwater.broker.transactions.log import TransactionLog
    from headwater.coordination.groups.offsets.commands import Commit
    from headwater.coordination.transactions.filter import TransactionFilter
    from headwater.coordination.transactions.machine import TransactionMachine

logger = logging.getLogger(__name__)

# From this epoch on, an EndTxn that raises the epoch may need another producer id.
EPOCH_NEARLY_LAST = 32_700
# A marker that could not be written is tried again after this pause, which doubles up to the maximum.
RETRY_PAUSE_S = 0.1
RETRY_PAUSE_S_MAX = 10.0
# How long a request is parked when the markers of the producer's previous transaction are not all written. As in Kafka
# (add.partitions.to.txn.retry.backoff.max.ms).
PARK_TIMEOUT_S = 0.1
# How long the reply to a published batch waits for the markers, so that the next consumer sees the batch.
MARKERS_TIMEOUT_S = 5.0

# What a produce reply says for a code of the coordinator. Every producer tries again on NOT_ENOUGH_REPLICAS.
_PRODUCE_CODES = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_COORDINATOR: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
}


class TransactionMembership(NamedTuple):
    """How a partition becomes part of a transaction: by the request itself (protocol 2), or by an AddPartitionsToTxn
    before it (protocol 1)."""

    transactional_id: TransactionalId
    adds_partitions: bool
    # Whether the client knows TRANSACTION_ABORTABLE (abort and go on); to an older client it would be a fatal error.
    knows_abortable: bool


# Ends a producer's transaction in a partition of an internal topic: partition, producer, epoch, marker, protocol.
EndInternal = Callable[[int, ProducerId, int, Marker, int], Pending[HeadwaterError | None]]


class _ParkedRequest:
    """A request that waits for markers, at most for `timeout_s`."""

    def __init__(self, retry: Callable[[], None], give_up: Callable[[], None], timeout_s: float) -> None:
        self._retry = retry
        self._give_up = give_up
        self._timer: asyncio.TimerHandle | None = asyncio.get_running_loop().call_later(timeout_s, self.expire)

    def resume(self) -> None:
        if self._claim():
            self._retry()

    def expire(self) -> None:
        if self._claim():
            self._give_up()

    def _claim(self) -> bool:
        """True once: a request is either resumed or given up, never both."""
        if self._timer is None:
            return False
        self._timer.cancel()
        self._timer = None
        return True


class TransactionCoordinator(ShardedTopic["TransactionMachine"]):
    def __init__(
        self,
        topics: Topics,
        partitions: HostedPartitions,
        producer_ids: ProducerIds,
        groups: GroupCoordinator,
        config: EffectiveConfig,
        leadership: Leadership,
        journal: Journal,
        clock: Clock,
        end_internal: Mapping[str, EndInternal],
    ) -> None:
        self._config = config.live
        self._end_internal = end_internal
        self._groups = groups
        self._leadership = leadership
        self._new_producer_id = producer_ids.next
        self._now_ms = clock.now_ms
        self._marker_writers: dict[WriteMarkers, MarkerWriter] = {}
        # Requests that go on once the markers of a transactional id are written. An id has an entry while they are not.
        self._parked: dict[TransactionalId, list[_ParkedRequest]] = {}
        self._renewals: set[asyncio.Task[None]] = set()
        # How many batches of a producer wait until their partition is part of the transaction.
        self._joining: Counter[tuple[ProducerId, TopicPartition]] = Counter()
        self._is_stopping = False

        def new_log(partition: Partition) -> TransactionLog:
            # Late import, as of the machine: a broker without transactions needs neither.
            from headwater.broker.transactions.log import TransactionLog  # noqa: PLC0415

            return TransactionLog(partition)

        def new_machine() -> TransactionMachine:
            from headwater.coordination.transactions.machine import TransactionMachine  # noqa: PLC0415

            return TransactionMachine(config.live.current, self._has_room, self._partitions_left)

        definition = ShardedTopicDefinition(
            TRANSACTIONS_TOPIC,
            lambda: config.live.current.transaction_state_log_num_partitions,
            lambda: {"segment.bytes": str(config.live.current.transaction_state_log_segment_bytes)},
            new_log,
            new_machine,
        )
        super().__init__(definition, topics, partitions, journal, clock, self._perform)

    def _has_room(self) -> bool:
        """Whether one more transactional id may be created."""
        total = sum(len(machine.transactions) for machine in self.machines())
        return total < self._config.current.headwater_transactions_max

    def _partitions_left(self) -> int:
        """How many more partitions all transactions together may write to."""
        taken = sum(machine.partition_count for machine in self.machines())
        return self._config.current.headwater_transactions_partitions_max - taken

    def partition_of(self, key: str) -> int:
        """An application and its writers share a machine, because it decides about them together."""
        return super().partition_of(application_of(key))

    # -- commands

    async def init_producer(
        self, transactional_id: TransactionalId, timeout_ms: int, expected: ProducerIdentity | None
    ) -> ProducerIdentity:
        """A refusal is raised."""
        init = InitProducer(transactional_id, timeout_ms, await self._new_producer_id(), expected)
        outcome = await self.submit(transactional_id, lambda machine, _, now: machine.decide_init(init, now)).wait()
        if isinstance(outcome, HeadwaterError):
            raise outcome
        return outcome

    def add_partitions(
        self,
        transactional_id: TransactionalId,
        producer: ProducerIdentity,
        partitions: Collection[TopicPartition],
        protocol_version: int,
    ) -> Pending[Outcome[None]]:
        def decide(machine: TransactionMachine, _ticket: Ticket, now: Now) -> Decision[None]:
            return machine.decide_add_partitions(transactional_id, producer, partitions, protocol_version, now)

        outcome: Pending[Outcome[None]] = Pending()

        def retry() -> None:
            self.submit(transactional_id, decide).then(outcome.resolve)

        def decided(refusal: Outcome[None]) -> None:
            if refusal is None or refusal.code is not ErrorCode.CONCURRENT_TRANSACTIONS or self._is_stopping:
                outcome.resolve(refusal)
            elif transactional_id in self._parked:
                # A refused client pauses before it tries again, much longer than the markers take that are missing.
                parked = _ParkedRequest(retry, lambda: outcome.resolve(refusal), PARK_TIMEOUT_S)
                self._parked[transactional_id].append(parked)
            else:
                retry()

        self.submit(transactional_id, decide).then(decided)
        return outcome

    def verify(
        self, transactional_id: TransactionalId, producer: ProducerIdentity, partitions: Sequence[TopicPartition]
    ) -> Pending[Outcome[Sequence[ErrorCode]]]:
        return self.submit(
            transactional_id,
            lambda machine, _ticket, _now: machine.decide_verify(transactional_id, producer, partitions),
        )

    def join(
        self, membership: TransactionMembership, producer: ProducerIdentity, where: TopicPartition
    ) -> Pending[HeadwaterError | None]:
        """None once the coordinator has it on disk that the transaction writes to the partition."""
        key = producer.producer_id, where
        self._joining[key] += 1

        def joined(refusal: HeadwaterError | None) -> HeadwaterError | None:
            self._joining[key] -= 1
            if not self._joining[key]:
                del self._joining[key]
            return refusal and _as_produce_refusal(refusal, membership)

        return self._join(membership, producer, where).map(joined)

    def join_internal(
        self, membership: TransactionMembership, producer: ProducerIdentity, where: TopicPartition
    ) -> Pending[HeadwaterError | None]:
        """As `join`, for a partition of the broker's own, which no client adds to its transaction."""
        version = PROTOCOL_2 if membership.adds_partitions else PROTOCOL_1
        joined = self.add_partitions(membership.transactional_id, producer, [where], version)
        return joined.map(lambda refusal: refusal and _as_produce_refusal(refusal, membership))

    def commit_offsets(
        self, group_id: GroupId, commit: Commit, producer: ProducerIdentity, membership: TransactionMembership
    ) -> Pending[Outcome[Sequence[ErrorCode]]]:
        """Commit offsets of a group that count once the transaction is committed: an error code for each, in order."""
        outcome: Pending[Outcome[Sequence[ErrorCode]]] = Pending()

        def joined(refusal: HeadwaterError | Fault | None) -> None:
            if refusal is not None:
                outcome.resolve(cast("HeadwaterError", refusal))
                return
            # At once, while the transaction is known to be open: after its end the offsets would stay pending forever.
            self._groups.commit_in_transaction(group_id, commit, *producer).then(outcome.resolve)

        self.join(membership, producer, TopicPartition(OFFSETS_TOPIC, self._groups.partition_of(group_id))).then(joined)
        return outcome

    def is_joining(self, producer_id: ProducerId, where: TopicPartition) -> bool:
        """Whether batches of the producer still wait to enter the partition: later ones must not overtake them."""
        return (producer_id, where) in self._joining

    def _join(
        self, membership: TransactionMembership, producer: ProducerIdentity, where: TopicPartition
    ) -> Pending[HeadwaterError | None]:
        transactional_id = membership.transactional_id
        if membership.adds_partitions:
            return self.add_partitions(transactional_id, producer, [where], PROTOCOL_2)

        def verified(outcome: Outcome[Sequence[ErrorCode]]) -> HeadwaterError | None:
            if not isinstance(outcome, HeadwaterError):
                (code,) = outcome
                if code is ErrorCode.NONE:
                    return None
                outcome = Refusal(code, f"{where} is not part of the open transaction of '{transactional_id}'")
            return outcome

        return self.verify(transactional_id, producer, [where]).map(verified)

    def end(
        self, transactional_id: TransactionalId, producer: ProducerIdentity, *, is_commit: bool, protocol_version: int
    ) -> Pending[Outcome[ProducerIdentity]]:
        """End a transaction. Gives the producer's identity from now on, once the decision is on disk."""
        end = EndTransaction(transactional_id, producer, is_commit, protocol_version, NO_PRODUCER_ID)
        if producer.epoch < EPOCH_NEARLY_LAST:
            return self._end(end)
        outcome: Pending[Outcome[ProducerIdentity]] = Pending()
        renewal = asyncio.get_running_loop().create_task(self._end_with_another_id(end, outcome), name="end")
        self._renewals.add(renewal)
        renewal.add_done_callback(self._renewals.discard)
        return outcome

    def _end(self, end: EndTransaction) -> Pending[Outcome[ProducerIdentity]]:
        return self.submit(end.transactional_id, lambda machine, _, now: machine.decide_end(end, now))

    async def _end_with_another_id(self, end: EndTransaction, outcome: Pending[Outcome[ProducerIdentity]]) -> None:
        try:
            new_producer_id = await self._new_producer_id()
        except HeadwaterError as error:
            outcome.resolve(error.kept())
        else:
            self._end(end._replace(new_producer_id=new_producer_id)).then(outcome.resolve)

    async def publish(
        self, application_id: TransactionalId, batch_id: int, writers: Sequence[StagedWriter], *, is_commit: bool
    ) -> PublishResult:
        """Publish a batch or abort its writers; returns when consumers see the outcome. A refusal is raised."""
        new_producer_id = await self._new_producer_id() if is_commit else NO_PRODUCER_ID
        publish = PublishBatch(application_id, batch_id, is_commit, writers, new_producer_id)
        outcome = await self.submit(application_id, lambda machine, _, now: machine.decide_publish(publish, now)).wait()
        if isinstance(outcome, HeadwaterError):
            raise outcome
        await self._wait_for_markers(writer.transactional_id for writer in writers)
        return outcome

    async def _wait_for_markers(self, transactional_ids: Iterable[TransactionalId]) -> None:
        """Wait until the markers of these are written, at most MARKERS_TIMEOUT_S: the decision stands all the same."""
        waiting: list[Pending[None]] = []
        for parked in (self._parked[each] for each in transactional_ids if each in self._parked):
            seen: Pending[None] = Pending()
            waiting.append(seen)
            resume = partial(seen.resolve, None)
            parked.append(_ParkedRequest(resume, resume, MARKERS_TIMEOUT_S))
        for seen in waiting:
            await seen.wait()

    def describe(self, transactional_id: TransactionalId) -> Pending[Outcome[TransactionDescription]]:
        def decide(machine: TransactionMachine, _ticket: Ticket, _now: Now) -> Decision[TransactionDescription]:
            return Decision((), machine.describe(transactional_id))

        return self.submit(transactional_id, decide)

    async def list(self, wanted: TransactionFilter) -> list[TransactionListing]:
        """The transactions of all shards. Refused if one shard cannot answer, because a part would look like all."""

        def decide(machine: TransactionMachine, _ticket: Ticket, now: Now) -> Decision[Sequence[TransactionListing]]:
            return Decision((), machine.listings(wanted, now))

        listings: list[TransactionListing] = []
        for outcome in await self.submit_to_all(decide):
            if isinstance(outcome, HeadwaterError):
                raise outcome
            listings += outcome
        return listings

    async def expire(self) -> None:
        """Forget transactional ids that no producer has used for `transactional.id.expiration.ms`."""
        await self.submit_to_all(lambda machine, _ticket, now: machine.decide_expire(now))

    # -- markers

    def _perform(self, effect: object) -> None:
        assert isinstance(effect, WriteMarkers)
        # A machine that was loaded again asks for markers that are already being written.
        if self._is_stopping or effect in self._marker_writers:
            return
        self._parked.setdefault(effect.transactional_id, [])
        writer = MarkerWriter(
            effect, self._write_marker, self._markers_written, pause_s=RETRY_PAUSE_S, pause_s_max=RETRY_PAUSE_S_MAX
        )
        self._marker_writers[effect] = writer
        writer.start()

    def _write_marker(self, markers: WriteMarkers, where: TopicPartition) -> Pending[HeadwaterError | None]:
        return self.write_marker(
            where,
            markers.producer_id,
            markers.producer_epoch,
            Marker(markers.is_commit, self._coordinator_epoch(self.partition_of(markers.transactional_id))),
            protocol_version=markers.protocol_version,
        )

    def _markers_written(self, markers: WriteMarkers) -> None:
        del self._marker_writers[markers]
        transactional_id = markers.transactional_id
        # The event may be lost: a machine that is loaded again asks for the markers again. So it is written together
        # with what comes next, most often the id's next transaction, which replaces it in the log.
        self.submit_write_behind(transactional_id, lambda machine, _, now: machine.decide_markers_written(markers, now))
        for parked in self._parked.pop(transactional_id, ()):
            parked.resume()

    def _coordinator_epoch(self, partition_index: int) -> int:
        return self._leadership.coordinator_epoch(TopicPartition(TRANSACTIONS_TOPIC, partition_index))

    def write_admin_marker(
        self, where: TopicPartition, producer_id: ProducerId, epoch: int, marker: Marker, *, protocol_version: int
    ) -> Pending[HeadwaterError | None]:
        """As `write_marker`, for an administrator who ends a transaction because its coordinator does not."""
        newest = max(map(self._coordinator_epoch, range(len(self.shards))), default=0)
        if marker.coordinator_epoch > newest:
            # A partition that accepted this epoch would fence the markers of the real coordinator.
            return refused(
                Refusal(ErrorCode.INVALID_REQUEST, f"no coordinator has had epoch {marker.coordinator_epoch} yet")
            )
        return self.write_marker(where, producer_id, epoch, marker, protocol_version=protocol_version)

    def write_marker(
        self, where: TopicPartition, producer_id: ProducerId, epoch: int, marker: Marker, *, protocol_version: int
    ) -> Pending[HeadwaterError | None]:
        """End a producer's transaction in one partition; None when the marker is on disk."""
        if where.topic == OFFSETS_TOPIC:
            return self._groups.end_transaction(
                where.partition, producer_id, epoch, marker.coordinator_epoch, marker.committed, protocol_version
            )
        if where.topic in self._end_internal:
            return self._end_internal[where.topic](where.partition, producer_id, epoch, marker, protocol_version)
        pending: Pending[HeadwaterError | None] = Pending()
        partitions = self._partitions.by_topic.get(where.topic, ())
        # Other internal topics have no transactions, and only the broker writes to them.
        if not 0 <= where.partition < len(partitions) or partitions[where.partition].is_internal:
            message = f"there is no partition {where} that takes markers"
            pending.resolve(Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message))
            return pending
        append = Append(lambda done: pending.resolve(done.error))
        try:
            partitions[where.partition].stage_marker(
                producer_id, epoch, marker, append, self._now_ms(), transaction_version=protocol_version
            )
        except HeadwaterError as error:
            pending.resolve(error.kept())
        return pending

    async def stop(self) -> None:
        self._is_stopping = True
        for writer in self._marker_writers.values():
            writer.cancel()
        self._marker_writers.clear()
        for parked in chain.from_iterable(self._parked.values()):
            parked.expire()
        self._parked.clear()
        for renewal in self._renewals:
            renewal.cancel()
        await asyncio.gather(*self._renewals, return_exceptions=True)
        await super().stop()


def _as_produce_refusal(refusal: HeadwaterError, membership: TransactionMembership) -> HeadwaterError:
    """The coordinator's refusal as a produce reply says it: the code depends on what the client understands."""
    code = _PRODUCE_CODES.get(refusal.code, refusal.code)
    if code is ErrorCode.CONCURRENT_TRANSACTIONS and not membership.adds_partitions:
        code = ErrorCode.NOT_ENOUGH_REPLICAS
    elif code is ErrorCode.TRANSACTION_ABORTABLE and not membership.knows_abortable:
        code = ErrorCode.INVALID_TXN_STATE
    return Refusal(code, str(refusal))
