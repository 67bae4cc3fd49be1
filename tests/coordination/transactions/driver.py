"""Drives the machine as its shard does: decides, applies, and checks that deciding alone changes nothing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from headwater.coordination.decisions import Decision, Now
from headwater.coordination.transactions.commands import (
    EndTransaction,
    InitProducer,
    ProducerIdentity,
    WriteMarkers,
)
from headwater.coordination.transactions.events import TransactionState, TransactionStored
from headwater.coordination.transactions.machine import TransactionMachine
from headwater.errors import ErrorCode, Refusal
from headwater.ids import ProducerId, TopicName, TopicPartition, TransactionalId

ResultT = TypeVar("ResultT")

ORDERS = TransactionalId("orders")
START = Now(1_700_000_000_000, 0)
TIMEOUT_MS = 60_000
A, B = TopicPartition(TopicName("a"), 0), TopicPartition(TopicName("b"), 1)


@dataclass(frozen=True)
class Settings:
    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    headwater_transactions_max: int = 10
    headwater_transaction_partitions_max: int = 100
    headwater_transactions_partitions_max: int = 1000
    headwater_publish_writers_max: int = 5
    headwater_application_id_expiration_ms: int = 2_592_000_000
    transaction_state_log_segment_bytes: int = 16_777_216


def producer(producer_id: int, epoch: int) -> ProducerIdentity:
    return ProducerIdentity(ProducerId(producer_id), epoch)


def stored(state: TransactionState, producer_id: int = 7, epoch: int = 5, **fields: object) -> TransactionStored:
    """The stored state of an id in use; an unfinished transaction has one partition."""
    is_idle = state.name.startswith(("EMPTY", "COMPLETE"))
    transaction = TransactionStored(
        ORDERS,
        ProducerId(producer_id),
        epoch,
        TIMEOUT_MS,
        state,
        frozenset() if is_idle else frozenset({A}),
        -1 if state is TransactionState.EMPTY else START.wall_ms - 10,
        START.wall_ms - 5,
    )
    return transaction._replace(**fields)


class Driver:
    def __init__(self, *events: object, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.machine = TransactionMachine(
            self.settings,
            lambda: len(self.machine.transactions) < self.settings.headwater_transactions_max,
            lambda: self.settings.headwater_transactions_partitions_max - self.machine.partition_count,
        )
        self.now = START
        self.new_producer_id = 100
        for event in events:
            self.machine.apply(event)

    @property
    def transaction(self) -> TransactionStored:
        return self.machine.transactions[ORDERS]

    def advance(self, milliseconds: int) -> None:
        self.now = Now(self.now.wall_ms + milliseconds, self.now.monotonic_ms + milliseconds)

    # -- deciding

    def decide(self, decide: Callable[[], Decision[ResultT]]) -> Decision[ResultT]:
        """The decision, which is not applied yet."""
        before = self.snapshot()
        try:
            return decide()
        finally:
            assert self.snapshot() == before, "deciding must not mutate"

    def take(self, decide: Callable[[], Decision[ResultT]]) -> Decision[ResultT]:
        decision = self.decide(decide)
        for event in decision.events:
            self.machine.apply(event)
        assert self.machine.partition_count == sum(len(each.partitions) for each in self.machine.transactions.values())
        return decision

    def snapshot(self) -> object:
        return dict(self.machine.transactions), dict(self.machine._deadlines._due_ms)

    # -- commands

    def init(self, expected: ProducerIdentity | None = None, **fields: object) -> Decision[ProducerIdentity | Refusal]:
        init = InitProducer(ORDERS, TIMEOUT_MS, ProducerId(self.new_producer_id), expected)._replace(**fields)
        return self.take(lambda: self.machine.decide_init(init, self.now))

    def add(
        self, who: ProducerIdentity, *partitions: TopicPartition, protocol_version: int = 1, of: str = ORDERS
    ) -> Decision[None]:
        return self.take(
            lambda: self.machine.decide_add_partitions(TransactionalId(of), who, partitions, protocol_version, self.now)
        )

    def verify(self, who: ProducerIdentity, *partitions: TopicPartition, of: str = ORDERS) -> Sequence[ErrorCode]:
        return self.take(lambda: self.machine.decide_verify(TransactionalId(of), who, partitions)).result

    def end(
        self, who: ProducerIdentity, *, is_commit: bool, protocol_version: int = 1, of: str = ORDERS
    ) -> Decision[ProducerIdentity]:
        end = EndTransaction(TransactionalId(of), who, is_commit, protocol_version, ProducerId(self.new_producer_id))
        return self.take(lambda: self.machine.decide_end(end, self.now))

    def written(self, markers: WriteMarkers) -> Decision[None]:
        return self.take(lambda: self.machine.decide_markers_written(markers, self.now))

    def write_markers(self, decision: Decision[object]) -> None:
        for markers in markers_in(decision):
            self.written(markers)

    def due(self) -> Sequence[Decision[None]]:
        """Processes all deadlines that are due by now."""
        decisions: list[Decision[None]] = []
        while (due_ms := self.machine.next_deadline_ms()) is not None and due_ms <= self.now.monotonic_ms:
            decisions.append(self.take(lambda: self.machine.decide_due(self.now)))
        return decisions

    def loaded(self) -> Decision[None]:
        return self.take(lambda: self.machine.decide_loaded(self.now))

    def expire(self) -> Decision[None]:
        return self.take(lambda: self.machine.decide_expire(self.now))


def markers_in(decision: Decision[object]) -> Sequence[WriteMarkers]:
    assert all(isinstance(effect, WriteMarkers) for effect in decision.effects)
    return cast("Sequence[WriteMarkers]", decision.effects)
