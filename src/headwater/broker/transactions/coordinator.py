"""Transactions: every command to the machines over `__transaction_state`, and the markers that carry out decisions.

A decision to commit or abort is on disk before its markers are written, and they are written again and again until each
is on disk: after a restart from what the log says.
"""

# Lazy annotations: nested functions are defined per request.
from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

from headwater.broker.catalog.effective_config import EffectiveConfig
from headwater.broker.catalog.hosted_partitions import HostedPartitions
from headwater.broker.catalog.producer_ids import ProducerIds
from headwater.broker.groups.coordinator import GroupCoordinator
from headwater.broker.pending import Pending
from headwater.broker.ports.leadership import Leadership
from headwater.broker.shards.shard import Outcome
from headwater.broker.shards.sharded_topic import Kind, ShardedTopic, refused
from headwater.broker.topics import Topics
from headwater.broker.transactions.log import TransactionLog
from headwater.broker.transactions.markers import MarkerWriter
from headwater.broker.writes.append import Append
from headwater.broker.writes.journal import Journal
from headwater.clock import Clock
from headwater.coordination.catalog.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, is_internal
from headwater.coordination.decisions import Decision, Now, Ticket
from headwater.coordination.transactions.commands import (
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
from headwater.coordination.transactions.filter import TransactionFilter
from headwater.coordination.transactions.machine import TransactionMachine
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import NO_PRODUCER_ID, ProducerId, TopicPartition, TransactionalId, application_of
from headwater.protocol.batches.batch import Marker

logger = logging.getLogger(__name__)

# From here on an end that raises the epoch may need another producer id.
EPOCH_NEARLY_LAST = 32_700
# A marker that could not be written is tried again after this, and after ever longer.
RETRY_PAUSE_S = 0.1
RETRY_PAUSE_S_MAX = 10.0
# How long a request is held that comes before the markers of the transaction before; Kafka does so for as long
# (add.partitions.to.txn.retry.backoff.max.ms).
HOLD_S = 0.1
# How long the answer to a published batch is held for the sake of whoever reads next.
PUBLISHED_HOLD_S = 5.0

# A moment later it may be well: every producer tries again on these.
_PRODUCE_CODES = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_COORDINATOR: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
}


class TransactionMembership(NamedTuple):
    """How a request brings its partition into a transaction: by saying so (protocol 2), or by having said so before."""

    transactional_id: TransactionalId
    adds_partitions: bool
    # Whether the client knows that it may abort and go on; an older one takes the error for the end of its producer.
    knows_abortable: bool


class _Held:
    """A request that waits for markers, though not for long."""

    def __init__(self, ask_again: Callable[[], None], give_up: Callable[[], None], hold_s: float) -> None:
        self._ask_again = ask_again
        self._give_up = give_up
        self._timer: asyncio.TimerHandle | None = asyncio.get_running_loop().call_later(hold_s, self.send_away)

    def go_on(self) -> None:
        if self._is_claimed():
            self._ask_again()

    def send_away(self) -> None:
        if self._is_claimed():
            self._give_up()

    def _is_claimed(self) -> bool:
        """True once: it goes on or is sent away, never both."""
        if self._timer is None:
            return False
        self._timer.cancel()
        self._timer = None
        return True


class TransactionCoordinator(ShardedTopic[TransactionMachine]):
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
    ) -> None:
        self._config = config.live
        self._groups = groups
        self._leadership = leadership
        self._new_producer_id = producer_ids.next
        self._wall_ms = clock.now_ms
        self._writing: dict[WriteMarkers, MarkerWriter] = {}
        # By transactional id whose markers are being written: requests that go on when they are.
        self._held: dict[TransactionalId, list[_Held]] = {}
        self._renewals: set[asyncio.Task[None]] = set()
        # How many batches of a producer wait until their partition has joined.
        self._joining: Counter[tuple[ProducerId, TopicPartition]] = Counter()
        self._is_stopping = False
        kind = Kind(
            TRANSACTIONS_TOPIC,
            lambda: config.live.current.transaction_state_log_num_partitions,
            lambda: {"segment.bytes": str(config.live.current.transaction_state_log_segment_bytes)},
            TransactionLog,
            lambda: TransactionMachine(config.live.current, self._has_room, self._partitions_left),
        )
        super().__init__(kind, topics, partitions, journal, clock, self._perform)

    def _has_room(self) -> bool:
        """Whether one more transactional id may begin."""
        total = sum(len(machine.transactions) for machine in self.machines())
        return total < self._config.current.headwater_transactions_max

    def _partitions_left(self) -> int:
        """To how many partitions more all transactions together may write."""
        taken = sum(machine.partition_count for machine in self.machines())
        return self._config.current.headwater_transactions_partitions_max - taken

    def partition_of(self, key: str) -> int:
        """An application and its writers are known to the same machine, because it decides over them together."""
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

        def ask_again() -> None:
            self.submit(transactional_id, decide).then(outcome.resolve)

        def decided(refusal: Outcome[None]) -> None:
            if refusal is None or refusal.code is not ErrorCode.CONCURRENT_TRANSACTIONS or self._is_stopping:
                outcome.resolve(refusal)
            elif transactional_id in self._held:
                # A client that is sent away comes back after a pause, which is long beside what is left to do.
                self._held[transactional_id].append(_Held(ask_again, lambda: outcome.resolve(refusal), HOLD_S))
            else:
                ask_again()

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
        """None once the coordinator knows, on disk, that the transaction writes to the partition."""
        key = producer.producer_id, where
        self._joining[key] += 1

        def joined(refusal: HeadwaterError | None) -> HeadwaterError | None:
            self._joining[key] -= 1
            if not self._joining[key]:
                del self._joining[key]
            return refusal and _as_producer_sees(refusal, membership)

        return self._join(membership, producer, where).map(joined)

    def is_joining(self, producer_id: ProducerId, where: TopicPartition) -> bool:
        """Whether batches of the producer still wait there: none that comes later may overtake them."""
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
        """Who the producer is from now on, once what it wants is on disk."""
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
        """Once the batch is published or its writers are aborted, and readers see it. A refusal is raised."""
        new_producer_id = await self._new_producer_id() if is_commit else NO_PRODUCER_ID
        publish = PublishBatch(application_id, batch_id, is_commit, writers, new_producer_id)
        outcome = await self.submit(application_id, lambda machine, _, now: machine.decide_publish(publish, now)).wait()
        if isinstance(outcome, HeadwaterError):
            raise outcome
        await self._see_markers(writer.transactional_id for writer in writers)
        return outcome

    async def _see_markers(self, transactional_ids: Iterable[TransactionalId]) -> None:
        """Returns when the markers of these are written, or are long in coming: it is decided all the same."""
        waiting: list[Pending[None]] = []
        for held in (self._held[each] for each in transactional_ids if each in self._held):
            seen: Pending[None] = Pending()
            waiting.append(seen)
            go_on = partial(seen.resolve, None)
            held.append(_Held(go_on, go_on, PUBLISHED_HOLD_S))
        for seen in waiting:
            await seen.wait()

    def describe(self, transactional_id: TransactionalId) -> Pending[Outcome[TransactionDescription]]:
        def decide(machine: TransactionMachine, _ticket: Ticket, _now: Now) -> Decision[TransactionDescription]:
            return Decision((), machine.describe(transactional_id))

        return self.submit(transactional_id, decide)

    async def list(self, wanted: TransactionFilter) -> list[TransactionListing]:
        """Of all shards; one that cannot answer makes the whole a refusal, because a part would look like all."""

        def decide(machine: TransactionMachine, _ticket: Ticket, now: Now) -> Decision[Sequence[TransactionListing]]:
            return Decision((), machine.listings(wanted, now))

        listings: list[TransactionListing] = []
        for outcome in await self.submit_to_all(decide):
            if isinstance(outcome, HeadwaterError):
                raise outcome
            listings += outcome
        return listings

    async def expire(self) -> None:
        """Forgets transactional ids that nobody has used for `transactional.id.expiration.ms`."""
        await self.submit_to_all(lambda machine, _ticket, now: machine.decide_expire(now))

    # -- markers

    def _perform(self, effect: object) -> None:
        assert isinstance(effect, WriteMarkers)
        # A machine that was loaded again asks for what is already being done.
        if self._is_stopping or effect in self._writing:
            return
        self._held.setdefault(effect.transactional_id, [])
        writing = MarkerWriter(effect, self._write, self._written, pause_s=RETRY_PAUSE_S, pause_s_max=RETRY_PAUSE_S_MAX)
        self._writing[effect] = writing
        writing.start()

    def _write(self, markers: WriteMarkers, where: TopicPartition) -> Pending[HeadwaterError | None]:
        return self.write_marker(
            where,
            markers.producer_id,
            markers.producer_epoch,
            Marker(markers.is_commit, self._coordinator_epoch(self.partition_of(markers.transactional_id))),
            protocol_version=markers.protocol_version,
        )

    def _written(self, markers: WriteMarkers) -> None:
        del self._writing[markers]
        transactional_id = markers.transactional_id
        # Whatever becomes of it: a machine that is loaded in the place of this one asks for the markers again. So it is
        # written along with what comes next, most often the id's next transaction, which takes its place in the log.
        self.tell(transactional_id, lambda machine, _, now: machine.decide_markers_written(markers, now))
        for held in self._held.pop(transactional_id, ()):
            held.go_on()

    def _coordinator_epoch(self, partition_index: int) -> int:
        return self._leadership.coordinator_epoch(TopicPartition(TRANSACTIONS_TOPIC, partition_index))

    def write_marker_by_hand(
        self, where: TopicPartition, producer_id: ProducerId, epoch: int, marker: Marker, *, protocol_version: int
    ) -> Pending[HeadwaterError | None]:
        """As `write_marker`, for an administrator who ends a transaction that its coordinator does not end."""
        newest = max(map(self._coordinator_epoch, range(len(self.shards))), default=0)
        if marker.coordinator_epoch > newest:
            # A partition that believed it would take no more markers from the real coordinator.
            return refused(
                Refusal(ErrorCode.INVALID_REQUEST, f"no coordinator has had epoch {marker.coordinator_epoch} yet")
            )
        return self.write_marker(where, producer_id, epoch, marker, protocol_version=protocol_version)

    def write_marker(
        self, where: TopicPartition, producer_id: ProducerId, epoch: int, marker: Marker, *, protocol_version: int
    ) -> Pending[HeadwaterError | None]:
        """Ends a producer's transaction in one partition; None when that is on disk."""
        if where.topic == OFFSETS_TOPIC:
            return self._groups.end_transaction(
                where.partition, producer_id, epoch, marker.coordinator_epoch, marker.committed, protocol_version
            )
        pending: Pending[HeadwaterError | None] = Pending()
        # Other internal topics have no transactions, and nobody but the broker writes to them.
        partitions = () if is_internal(where.topic) else self._partitions.by_topic.get(where.topic, ())
        if not 0 <= where.partition < len(partitions):
            message = f"there is no partition {where} that takes markers"
            pending.resolve(Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message))
            return pending
        append = Append(lambda settled: pending.resolve(settled.error))
        try:
            partitions[where.partition].stage_marker(
                producer_id, epoch, marker, append, self._wall_ms(), transaction_version=protocol_version
            )
        except HeadwaterError as error:
            pending.resolve(error.kept())
        return pending

    async def stop(self) -> None:
        self._is_stopping = True
        for writing in self._writing.values():
            writing.cancel()
        self._writing.clear()
        for held in chain.from_iterable(self._held.values()):
            held.send_away()
        self._held.clear()
        for renewal in self._renewals:
            renewal.cancel()
        await asyncio.gather(*self._renewals, return_exceptions=True)
        await super().stop()


def _as_producer_sees(refusal: HeadwaterError, membership: TransactionMembership) -> HeadwaterError:
    """A produce has its own codes for what the coordinator says, which depend on what the client understands."""
    code = _PRODUCE_CODES.get(refusal.code, refusal.code)
    if code is ErrorCode.CONCURRENT_TRANSACTIONS and not membership.adds_partitions:
        code = ErrorCode.NOT_ENOUGH_REPLICAS
    elif code is ErrorCode.TRANSACTION_ABORTABLE and not membership.knows_abortable:
        code = ErrorCode.INVALID_TXN_STATE
    return Refusal(code, str(refusal))
