"""A query that writes batch after batch through a machine: tasks are repeated, speculated and time out, drivers and the
broker are killed at any point, requests are held back and arrive much later, answers are lost.

Every task writes to a partition of its own number, so that what is committed tells which task of which batch it was.
"""

from collections import Counter
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headwater.coordination.decisions import Decision
from headwater.coordination.transactions.commands import (
    InitProducer,
    ProducerIdentity,
    PublishBatch,
    PublishResult,
    StagedWriter,
    WriteMarkers,
)
from headwater.coordination.transactions.events import TransactionState, TransactionStored
from headwater.errors import ErrorCode, Refusal
from headwater.ids import ProducerId, TopicName, TopicPartition, TransactionalId, staging_id
from tests.coordination.transactions.driver import TIMEOUT_MS, Driver, markers_in

APP = TransactionalId("app")
TASKS = range(2)
ATTEMPTS = range(2)
FOUND_OUT = {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
MOSTLY = st.sampled_from([True, True, False])


class Row(NamedTuple):
    batch_id: int
    task: int


class Publishing(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.driver = Driver()
        # The events on disk, and all events that ever were.
        self.log: list[TransactionStored] = []
        self.history: list[TransactionStored] = []
        self.markers: list[WriteMarkers] = []
        self.rows: dict[int, Row] = {}
        self.requests: list[PublishBatch] = []
        # Of the query: the batch that it writes, what is staged for it, and whether it has to begin anew.
        self.batch_id = 0
        self.staged: dict[int, StagedWriter] = {}

    # -- the broker

    def take(self, decision: Decision[object], *, survives: bool = True) -> None:
        if survives:
            durable = [event for event in decision.events if isinstance(event, TransactionStored)]
            self.log += durable
            self.history += durable
            for event in decision.events:
                self.driver.machine.apply(event)
            self.markers += markers_in(decision)
        else:
            self.kill_the_broker()

    @rule()
    def kill_the_broker(self) -> None:
        now = self.driver.now
        self.driver = Driver(*self.log)
        self.driver.now = now
        self.markers = list(markers_in(self.driver.loaded()))

    @rule()
    def compact(self) -> None:
        """The last event of each id, in log order."""
        last = {event.transactional_id: event for event in self.log}
        self.log = [event for event in self.log if last[event.transactional_id] is event]

    @rule(number=st.integers(0, 5))
    def write_markers_of_one(self, number: int) -> None:
        if self.markers:
            written = self.markers.pop(number % len(self.markers))
            self.take(self.driver.machine.decide_markers_written(written, self.driver.now))

    def write_markers(self) -> None:
        while self.markers:
            self.write_markers_of_one(0)

    @rule()
    def let_time_pass(self) -> None:
        self.driver.advance(TIMEOUT_MS // 2)
        machine = self.driver.machine
        while (due_ms := machine.next_deadline_ms()) is not None and due_ms <= self.driver.now.monotonic_ms:
            self.take(machine.decide_due(self.driver.now))

    # -- tasks

    @rule(task=st.sampled_from(TASKS), attempt=st.sampled_from(ATTEMPTS), is_heard=st.booleans())
    def run_a_task(self, task: int, attempt: int, is_heard: bool) -> None:
        """A task that is not named later was killed after it had staged everything, or a duplicate was faster."""
        machine, now = self.driver.machine, self.driver.now
        transactional_id = staging_id(APP, f"{task}-{attempt}")
        self.driver.new_producer_id += 1
        init = InitProducer(transactional_id, TIMEOUT_MS, ProducerId(self.driver.new_producer_id))
        try:
            decision = machine.decide_init(init, now)
        except Refusal:
            # The previous transaction has not ended yet.
            return
        self.take(decision)
        if not isinstance(decision.result, ProducerIdentity):
            return
        number = len(self.rows)
        self.rows[number] = Row(self.batch_id, task)
        where = TopicPartition(TopicName("sink"), number)
        self.take(machine.decide_add_partitions(transactional_id, decision.result, [where], 2, now))
        if is_heard:
            self.staged[task] = StagedWriter(transactional_id, decision.result)

    @rule(attempt=st.sampled_from(ATTEMPTS))
    def run_the_tasks_that_are_missing(self, attempt: int) -> None:
        for task in TASKS:
            while task not in self.staged:
                self.write_markers()
                self.run_a_task(task, attempt, is_heard=True)

    # -- the query

    @rule()
    def kill_the_query(self) -> None:
        self.staged.clear()

    @rule(arrives=MOSTLY, survives=MOSTLY, is_heard=MOSTLY)
    def publish(self, arrives: bool, survives: bool, is_heard: bool) -> None:
        if len(self.staged) < len(TASKS):
            return
        request = PublishBatch(APP, self.batch_id, True, tuple(self.staged.values()), ProducerId(50))
        self.requests.append(request)
        if arrives:
            told = self.ask(request, survives=survives)
            if isinstance(told, Refusal):
                assert told.code in FOUND_OUT
                self.staged.clear()
            elif is_heard and survives:
                assert told.published_batch_id == self.batch_id
                self.batch_id += 1
                self.staged.clear()

    @rule(is_heard=st.booleans())
    def abort(self, is_heard: bool) -> None:
        request = PublishBatch(APP, self.batch_id, False, tuple(self.staged.values()), ProducerId(50))
        self.requests.append(request)
        if is_heard:
            assert isinstance(self.ask(request), PublishResult)
        self.staged.clear()

    @rule(number=st.integers(0, 9))
    def a_request_arrives_late_or_again(self, number: int) -> None:
        if self.requests:
            self.ask(self.requests[number % len(self.requests)])

    def ask(self, request: PublishBatch, *, survives: bool = True) -> PublishResult | Refusal:
        try:
            decision = self.driver.machine.decide_publish(request, self.driver.now)
        except Refusal as error:
            return error
        self.take(decision, survives=survives)
        return decision.result

    # -- invariants

    @invariant()
    def each_row_of_a_published_batch_is_there_once(self) -> None:
        committed = Counter(
            self.rows[partition.partition]
            for event in self.history
            if event.state is TransactionState.PREPARE_COMMIT
            for partition in event.partitions
        )
        last_id = max((event.published_batch_id for event in self.history), default=-1)
        assert last_id in {self.batch_id - 1, self.batch_id}
        assert committed == {Row(batch_id, task): 1 for batch_id in range(last_id + 1) for task in TASKS}

    @invariant()
    def the_index_holds_what_is_open(self) -> None:
        is_open = {
            each
            for each, transaction in self.driver.machine.transactions.items()
            if transaction.state is TransactionState.ONGOING
        }
        assert self.driver.machine._staging.get(APP, {}).keys() == is_open


TestPublishing = Publishing.TestCase
TestPublishing.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
