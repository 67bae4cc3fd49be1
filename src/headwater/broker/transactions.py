"""Transactions: every command to the machines over `__transaction_state`, and the markers that carry out decisions.

A decision to commit or abort is on disk before its markers are written, and they are written again and again until each
is on disk: after a restart from what the log says.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from headwater.broker.catalog import Catalog
from headwater.broker.groups import Groups
from headwater.broker.journal import Journal
from headwater.broker.partition import Append, Partition
from headwater.broker.pending import Pending
from headwater.broker.shard import Outcome
from headwater.broker.sharding import Kind, Sharding
from headwater.broker.state_log import StateLog
from headwater.broker.transaction_format import TransactionFormat
from headwater.clock import Clock
from headwater.config import BrokerConfig
from headwater.coordination.decisions import Decision, Now, Ticket
from headwater.coordination.topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, is_internal
from headwater.coordination.transactions.commands import (
    PROTOCOL_2,
    EndTransaction,
    InitProducer,
    ProducerIdentity,
    TransactionDescription,
    TransactionListing,
    WriteMarkers,
)
from headwater.coordination.transactions.events import Event
from headwater.coordination.transactions.listing import TransactionFilter
from headwater.coordination.transactions.machine import TransactionMachine
from headwater.errors import ErrorCode, HeadwaterError, KafkaError
from headwater.ids import NO_PRODUCER_ID, ProducerId, TopicPartition, TransactionalId
from headwater.protocol.batch import Marker

logger = logging.getLogger(__name__)

# From here on an end that raises the epoch may need another producer id.
EPOCH_NEARLY_LAST = 32_700
# There is one coordinator, which is never replaced by another.
COORDINATOR_EPOCH = 0
# A marker that could not be written is tried again after this, and after ever longer.
RETRY_PAUSE_S = 0.1
RETRY_PAUSE_S_MAX = 10.0
# The partition is gone, or another marker has already ended the transaction there.
_NEEDLESS = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_PRODUCER_EPOCH})


# A moment later it may be well: every producer tries again on these.
_PRODUCE_CODES = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_COORDINATOR: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
}


class Joining(NamedTuple):
    """How a request brings its partition into a transaction: by saying so (protocol 2), or by having said so before."""

    transactional_id: TransactionalId
    adds_partitions: bool
    # Whether the client knows that it may abort and go on; an older one takes the error for the end of its producer.
    knows_abortable: bool


class Transactions(Sharding[TransactionMachine]):
    def __init__(
        self, catalog: Catalog, groups: Groups, config: Callable[[], BrokerConfig], journal: Journal, clock: Clock
    ) -> None:
        self._config = config
        self._groups = groups
        self._partitions = catalog.partitions
        self._new_producer_id = catalog.new_producer_id
        self._wall_ms = clock.now_ms
        self._writing: dict[WriteMarkers, asyncio.Task[None]] = {}
        # How many batches of a producer wait until their partition has joined.
        self._joining: Counter[tuple[ProducerId, TopicPartition]] = Counter()
        self._is_stopping = False
        event_format = TransactionFormat()

        def new_log(partition: Partition) -> StateLog[Event]:
            return StateLog(partition, event_format)

        kind = Kind(
            TRANSACTIONS_TOPIC,
            lambda: config().transaction_state_log_num_partitions,
            lambda: {"segment.bytes": str(config().transaction_state_log_segment_bytes)},
            new_log,
            lambda: TransactionMachine(config(), self._has_room),
        )
        super().__init__(kind, catalog, journal, clock, self._perform)

    def _has_room(self) -> bool:
        """Whether one more transactional id may begin."""
        total = sum(len(machine.transactions) for machine in self.machines())
        return total < self._config().headwater_transactions_max

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
        return self.submit(
            transactional_id,
            lambda machine, _, now: machine.decide_add_partitions(
                transactional_id, producer, partitions, protocol_version, now
            ),
        )

    def verify(
        self, transactional_id: TransactionalId, producer: ProducerIdentity, partitions: Sequence[TopicPartition]
    ) -> Pending[Outcome[Sequence[ErrorCode]]]:
        return self.submit(
            transactional_id,
            lambda machine, _ticket, _now: machine.decide_verify(transactional_id, producer, partitions),
        )

    def join(
        self, joining: Joining, producer: ProducerIdentity, where: TopicPartition
    ) -> Pending[HeadwaterError | None]:
        """None once the coordinator knows, on disk, that the transaction writes to the partition."""
        key = producer.producer_id, where
        self._joining[key] += 1

        def joined(refusal: HeadwaterError | None) -> HeadwaterError | None:
            self._joining[key] -= 1
            if not self._joining[key]:
                del self._joining[key]
            return refusal and _as_producer_sees(refusal, joining)

        return self._join(joining, producer, where).map(joined)

    def is_joining(self, producer_id: ProducerId, where: TopicPartition) -> bool:
        """Whether batches of the producer still wait there: none that comes later may overtake them."""
        return (producer_id, where) in self._joining

    def _join(
        self, joining: Joining, producer: ProducerIdentity, where: TopicPartition
    ) -> Pending[HeadwaterError | None]:
        transactional_id = joining.transactional_id
        if joining.adds_partitions:
            return self.add_partitions(transactional_id, producer, [where], PROTOCOL_2)

        def verified(outcome: Outcome[Sequence[ErrorCode]]) -> HeadwaterError | None:
            if not isinstance(outcome, HeadwaterError):
                (code,) = outcome
                if code is ErrorCode.NONE:
                    return None
                outcome = KafkaError(code, f"{where} is not part of the open transaction of '{transactional_id}'")
            return outcome

        return self.verify(transactional_id, producer, [where]).map(verified)

    async def end(
        self, transactional_id: TransactionalId, producer: ProducerIdentity, *, is_commit: bool, protocol_version: int
    ) -> ProducerIdentity:
        """Who the producer is from now on, once what it wants is on disk. A refusal is raised."""
        new_producer_id = NO_PRODUCER_ID
        if producer.epoch >= EPOCH_NEARLY_LAST:
            new_producer_id = await self._new_producer_id()
        end = EndTransaction(transactional_id, producer, is_commit, protocol_version, new_producer_id)
        outcome = await self.submit(transactional_id, lambda machine, _, now: machine.decide_end(end, now)).wait()
        if isinstance(outcome, HeadwaterError):
            raise outcome
        return outcome

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
        if not self._is_stopping and effect not in self._writing:
            task = asyncio.get_running_loop().create_task(self._write_markers(effect), name="write markers")
            self._writing[effect] = task
            task.add_done_callback(lambda _: self._writing.pop(effect, None))

    async def _write_markers(self, markers: WriteMarkers) -> None:
        missing = list(markers.partitions)
        pause_s = RETRY_PAUSE_S
        while missing:
            written = [
                self.write_marker(
                    each,
                    markers.producer_id,
                    markers.producer_epoch,
                    Marker(markers.is_commit, COORDINATOR_EPOCH),
                    protocol_version=markers.protocol_version,
                )
                for each in missing
            ]
            errors = [await pending.wait() for pending in written]
            missing = [
                each
                for each, error in zip(missing, errors, strict=True)
                if error is not None and error.code not in _NEEDLESS
            ]
            if missing:
                logger.warning("markers of %r are missing in %d partitions", markers.transactional_id, len(missing))
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, RETRY_PAUSE_S_MAX)
        await self.submit(
            markers.transactional_id, lambda machine, _, now: machine.decide_markers_written(markers, now)
        ).wait()

    def write_marker(
        self, where: TopicPartition, producer_id: ProducerId, epoch: int, marker: Marker, *, protocol_version: int
    ) -> Pending[HeadwaterError | None]:
        """Ends a producer's transaction in one partition; None when that is on disk."""
        if where.topic == OFFSETS_TOPIC:
            return self._groups.end_transaction(
                where.partition, producer_id, epoch, marker.coordinator_epoch, marker.committed
            )
        pending: Pending[HeadwaterError | None] = Pending()
        # Other internal topics have no transactions, and nobody but the broker writes to them.
        partitions = () if is_internal(where.topic) else self._partitions.get(where.topic, ())
        if not 0 <= where.partition < len(partitions):
            message = f"there is no partition {where} that takes markers"
            pending.resolve(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message))
            return pending
        append = Append(lambda settled: pending.resolve(settled.error))
        try:
            partitions[where.partition].stage_marker(
                producer_id, epoch, marker, append, self._wall_ms(), transaction_version=protocol_version
            )
        except HeadwaterError as error:
            pending.resolve(error)
        return pending

    async def stop(self) -> None:
        self._is_stopping = True
        tasks = list(self._writing.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await super().stop()


def _as_producer_sees(refusal: HeadwaterError, joining: Joining) -> HeadwaterError:
    """A produce has its own codes for what the coordinator says, which depend on what the client understands."""
    code = _PRODUCE_CODES.get(refusal.code, refusal.code)
    if code is ErrorCode.CONCURRENT_TRANSACTIONS and not joining.adds_partitions:
        code = ErrorCode.NOT_ENOUGH_REPLICAS
    elif code is ErrorCode.TRANSACTION_ABORTABLE and not joining.knows_abortable:
        code = ErrorCode.INVALID_TXN_STATE
    return KafkaError(code, str(refusal))
