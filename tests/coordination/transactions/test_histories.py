"""Clients of both protocols on a machine: requests are lost, repeated and held back, clients are replaced and live on
as zombies, transactions time out, and the broker is killed, which leaves any prefix of what it had not yet confirmed.

Every partition that is added gets a number of its own. So its marker tells which transaction of which client was ended,
and the end of a transaction by anything that was not meant for it is seen.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headwater.coordination.decisions import VOLATILE_TYPES, Decision, Now
from headwater.coordination.transactions.commands import (
    EndTransaction,
    InitProducer,
    ProducerIdentity,
    WriteMarkers,
)
from headwater.coordination.transactions.events import TransactionForgotten, TransactionState, TransactionStored
from headwater.coordination.transactions.transitions import (
    EPOCH_MAX,
    EPOCH_OF_CLIENT_MAX,
    FOLLOWERS,
    IDLE,
    ONGOING,
    PREPARED,
    identity_of,
    markers_of,
)
from headwater.errors import ErrorCode, Refusal
from headwater.ids import ProducerId, TopicName, TopicPartition, TransactionalId
from tests.coordination.transactions.driver import ORDERS, TIMEOUT_MS, Driver, Settings, markers_in, stored

# Codes on which a client retries; after any other refusal it gives up.
RETRIED = (ErrorCode.CONCURRENT_TRANSACTIONS,)


# Ids are forgotten now and then.
SETTINGS = Settings(transactional_id_expiration_ms=3 * TIMEOUT_MS)


class Fault(Enum):
    NONE = "none"
    # The request is in flight,
    HELD_BACK = "held back"
    # or it arrived and the answer did not;
    ANSWER_LOST = "answer lost"
    # or nothing is wrong, but other things happen before it is on disk.
    UNWRITTEN = "unwritten"


FAULTS = st.sampled_from([*[Fault.NONE] * 5, *Fault])
STEPS = st.sampled_from(["add", "add", "commit", "commit", "abort", "init"])


@dataclass(eq=False)
class Client:
    protocol: int
    identity: ProducerIdentity | None = None
    # What it waits for the answer of; its transaction, whose partitions are known to be in it; whether it gave up.
    pending: "Request | None" = None
    transaction: int = 0
    partitions: set[TopicPartition] = field(default_factory=set[TopicPartition])
    is_dead: bool = False


@dataclass(eq=False)
class Request:
    client: Client
    # The number of its client.
    transaction: int
    kind: str
    producer: ProducerIdentity | None
    partition: TopicPartition | None = None
    is_commit: bool = False


class Histories(RuleBasedStateMachine):
    @initialize(epoch=st.sampled_from([0, EPOCH_OF_CLIENT_MAX - 3, EPOCH_OF_CLIENT_MAX - 1, EPOCH_OF_CLIENT_MAX]))
    def begin(self, epoch: int) -> None:
        self.driver = Driver(settings=SETTINGS)
        self.log: list[object] = []
        # Applied, though not yet on disk; with them wait what clients are told and what the broker does.
        self.unwritten: list[object] = []
        self.held: list[Callable[[], None]] = []
        self.markers: list[WriteMarkers] = []
        self.past_markers: list[WriteMarkers] = []
        self.clients: list[Client] = []
        self.requests: list[Request] = []
        self.producer_ids = 10
        self.owners: dict[TopicPartition, tuple[Client, int]] = {}
        # State according to the events on disk.
        self.outcomes: dict[TopicPartition, bool] = {}
        self.told: dict[ProducerIdentity, Client] = {}
        first = stored(TransactionState.EMPTY, self.new_producer_id(), epoch)
        self.driver.machine.apply(first)
        self.log.append(first)

    def new_producer_id(self) -> ProducerId:
        self.producer_ids += 1
        return ProducerId(self.producer_ids)

    # -- clients

    @rule(protocol=st.sampled_from([1, 2]), fault=FAULTS)
    def start_client(self, protocol: int, fault: Fault) -> None:
        client = Client(protocol)
        self.clients.append(client)
        self.send(Request(client, 0, "init", None), fault)

    @rule(data=st.data(), steps=st.lists(st.tuples(STEPS, FAULTS), min_size=1, max_size=6))
    def let_client_go_on(self, data: st.DataObject, steps: list[tuple[str, Fault]]) -> None:
        alive = [each for each in self.clients if not each.is_dead]
        if not alive:
            return
        client = data.draw(st.sampled_from(alive))
        for step, fault in steps:
            if client.is_dead:
                break
            if client.pending is not None:
                self.write_all_markers()
                self.deliver(client.pending, fault)
            else:
                self.send(self.next_request(client, step), fault)

    def next_request(self, client: Client, step: str) -> Request:
        number, identity = client.transaction, client.identity
        if step == "init" and not client.partitions:
            return Request(client, number, "init", identity)
        # After an error a client of protocol 2 may not know that nothing was begun.
        if step in ("commit", "abort") and (client.partitions or (step == "abort" and client.protocol == 2)):
            return Request(client, number, "end", identity, is_commit=step == "commit")
        partition = TopicPartition(TopicName("t"), len(self.owners))
        self.owners[partition] = (client, number)
        return Request(client, number, "add", identity, partition)

    def send(self, request: Request, fault: Fault) -> None:
        request.client.pending = request
        self.requests.append(request)
        if fault is not Fault.HELD_BACK:
            self.deliver(request, fault)

    # -- the network

    @rule(data=st.data(), fault=FAULTS)
    def deliver_late(self, data: st.DataObject, fault: Fault) -> None:
        """Delivers any earlier request, whether it arrived before or not."""
        late = [each for each in self.requests if self.may_be_late(each)]
        if late:
            self.deliver(data.draw(st.sampled_from(late)), fault)

    def deliver(self, request: Request, fault: Fault) -> None:
        before = self.driver.machine.transactions.get(ORDERS)
        try:
            decision = self.decide(request)
        except Refusal as error:
            result: object = error
        else:
            self.check_meant(request, before, decision)
            self.take(decision)
            result = decision.result
        if fault is not Fault.ANSWER_LOST:
            self.hold(lambda: self.answer(request, result))
        if fault is not Fault.UNWRITTEN:
            self.write()

    def may_be_late(self, request: Request) -> bool:
        """In protocol 1 a request that is late must be of an earlier epoch to be harmless: that is its limit."""
        if request.client.protocol == 2 or request.client.pending is request:
            return True
        transaction = self.driver.machine.transactions.get(ORDERS)
        return transaction is None or identity_of(transaction) != request.producer

    def decide(self, request: Request) -> Decision[Any]:
        machine, now, client = self.driver.machine, self.driver.now, request.client
        if request.kind == "init":
            init = InitProducer(ORDERS, TIMEOUT_MS, self.new_producer_id(), request.producer)
            return self.driver.decide(lambda: machine.decide_init(init, now))
        assert request.producer is not None
        if request.partition is not None:
            who, added = request.producer, [request.partition]
            return self.driver.decide(lambda: machine.decide_add_partitions(ORDERS, who, added, client.protocol, now))
        end = EndTransaction(ORDERS, request.producer, request.is_commit, client.protocol, self.new_producer_id())
        return self.driver.decide(lambda: machine.decide_end(end, now))

    def check_meant(self, request: Request, before: TransactionStored | None, decision: Decision[object]) -> None:
        """A request changes the transaction that it was sent for, and no other. Only a client that has just started
        does not care whose it is, and one whose id was forgotten begins anew."""
        if request.producer is None or before is None or not decision.events:
            return
        assert before.state not in PREPARED
        assert {self.owners[each] for each in before.partitions} <= {(request.client, request.transaction)}

    def answer(self, request: Request, result: object) -> None:
        client = request.client
        if client.pending is not request or client.is_dead:
            return
        if isinstance(result, Refusal):
            client.is_dead = result.code not in RETRIED
            return
        client.pending = None
        if request.kind == "add":
            assert request.partition is not None
            client.partitions.add(request.partition)
            return
        assert isinstance(result, ProducerIdentity)
        if request.kind == "end":
            assert {self.outcomes.get(each) for each in client.partitions} <= {request.is_commit}
        if request.kind == "init" or client.protocol == 2:
            assert result.epoch < EPOCH_MAX
            holder = self.told.setdefault(result, client)
            assert holder is client, "two clients are the same producer"
            if client.identity is not None:
                assert result > client.identity
        client.identity = result
        client.transaction += 1
        client.partitions = set()

    # -- the broker

    def take(self, decision: Decision[Any]) -> None:
        for event in decision.events:
            if isinstance(event, TransactionStored):
                self.check_followers(event)
            self.driver.machine.apply(event)
        self.unwritten += [event for event in decision.events if type(event) not in VOLATILE_TYPES]
        self.hold(lambda: self.markers.extend(markers_in(decision)))

    def check_followers(self, event: TransactionStored) -> None:
        before = self.driver.machine.transactions.get(event.transactional_id)
        if before is None:
            assert event.state is TransactionState.EMPTY
            return
        assert event.state in FOLLOWERS[before.state]
        assert identity_of(event) >= identity_of(before), "producer ids and epochs only grow"

    def hold(self, action: Callable[[], None]) -> None:
        self.held.append(action)
        if not self.unwritten:
            self.release()

    def write(self) -> None:
        self.to_disk(self.unwritten)
        self.unwritten = []
        self.release()

    def to_disk(self, events: list[object]) -> None:
        for event in events:
            self.log.append(event)
            if isinstance(event, TransactionStored) and event.state in PREPARED:
                for each in event.partitions:
                    is_commit = event.state is TransactionState.PREPARE_COMMIT
                    assert self.outcomes.setdefault(each, is_commit) == is_commit

    def release(self) -> None:
        held, self.held = self.held, []
        for action in held:
            action()

    @rule()
    def write_all_markers(self) -> None:
        for markers in self.markers:
            self.take(self.driver.decide(partial(self.driver.machine.decide_markers_written, markers, self.driver.now)))
            transaction = self.driver.machine.transactions.get(ORDERS)
            assert transaction is None or transaction.state not in PREPARED or markers_of(transaction) != markers
        self.past_markers += self.markers
        self.markers = []

    @rule(data=st.data())
    def write_markers_again(self, data: st.DataObject) -> None:
        """For example by a task that outlived the machine that started it."""
        if not self.past_markers:
            return
        markers = data.draw(st.sampled_from(self.past_markers))
        decision = self.driver.decide(lambda: self.driver.machine.decide_markers_written(markers, self.driver.now))
        assert markers in self.markers or not decision.events
        self.take(decision)

    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        """A crash may keep any prefix of the unconfirmed events, though no client was told of them."""
        survived = data.draw(st.integers(0, len(self.unwritten)))
        self.to_disk(self.unwritten[:survived])
        self.past_markers += self.markers
        self.unwritten, self.held, self.markers = [], [], []
        now = self.driver.now
        self.driver = Driver(*self.log, settings=SETTINGS)
        self.driver.now = now
        self.check_compacted()
        self.take(self.driver.decide(lambda: self.driver.machine.decide_loaded(now)))

    # -- time

    @rule(milliseconds=st.sampled_from([1_000, TIMEOUT_MS, TIMEOUT_MS]), jump_ms=st.sampled_from([0, -10_000, 10_000]))
    def pass_time(self, milliseconds: int, jump_ms: int) -> None:
        now = self.driver.now
        self.driver.now = Now(now.wall_ms + milliseconds + jump_ms, now.monotonic_ms + milliseconds)
        machine = self.driver.machine
        while (due_ms := machine.next_deadline_ms()) is not None and due_ms <= self.driver.now.monotonic_ms:
            self.take(self.driver.decide(lambda: machine.decide_due(self.driver.now)))
        decision = self.driver.decide(lambda: machine.decide_expire(self.driver.now))
        assert not decision.events or all(each.state in IDLE for each in machine.transactions.values())
        self.take(decision)

    # -- invariants

    @invariant()
    def a_transaction_that_is_open_has_a_deadline(self) -> None:
        machine = self.driver.machine
        is_open = {name for name, each in machine.transactions.items() if each.state is ONGOING}
        assert set(machine._deadlines._due_ms) == is_open

    @invariant()
    def partitions_belong_to_transactions_that_are_not_over(self) -> None:
        for transaction in self.driver.machine.transactions.values():
            assert bool(transaction.partitions) == (transaction.state not in IDLE)

    def check_compacted(self) -> None:
        newest: dict[TransactionalId, object] = {}
        for event in self.log:
            assert isinstance(event, TransactionStored | TransactionForgotten)
            newest[event.transactional_id] = event
        assert Driver(*newest.values()).machine.transactions == self.driver.machine.transactions

    def teardown(self) -> None:
        if not hasattr(self, "driver"):
            return
        self.write()
        machine = self.driver.machine
        assert Driver(*self.log).machine.transactions == machine.transactions, "the log rebuilds the machine"
        self.write_all_markers()
        assert not [each for each in machine.transactions.values() if each.state in PREPARED]


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=150, stateful_step_count=40)
