"""PublishBatch: the writers that become visible, the stored batch, and answers to replays, zombies and stragglers."""

from collections.abc import Sequence
from typing import Any

import pytest

from headwater.coordination.decisions import Decision
from headwater.coordination.transactions.commands import ProducerIdentity, PublishBatch, PublishResult, StagedWriter
from headwater.coordination.transactions.events import NO_BATCH_ID, TransactionState, TransactionStored
from headwater.coordination.transactions.transitions import EPOCH_MAX, EPOCH_OF_CLIENT_MAX
from headwater.errors import ErrorCode, Refusal
from headwater.ids import ProducerId, TopicName, TopicPartition, TransactionalId, staging_id
from tests.coordination.transactions.driver import TIMEOUT_MS, A, B, Driver, Settings, markers_in, stored

APP = TransactionalId("app")
FIRST, SECOND, THIRD = (staging_id(APP, name) for name in ("0-0", "1-0", "1-1"))
EMPTY, ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
PREPARE_COMMIT, PREPARE_ABORT = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
COMPLETE_COMMIT, COMPLETE_ABORT = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT


class Sink(Driver):
    """Tasks that stage, and the driver that publishes them."""

    def begin(self, transactional_id: TransactionalId) -> StagedWriter:
        self.new_producer_id += 1
        decision = self.init(transactional_id=transactional_id)
        if isinstance(decision.result, Refusal):
            self.write_markers(decision)
            decision = self.init(transactional_id=transactional_id)
        assert isinstance(decision.result, ProducerIdentity)
        return StagedWriter(transactional_id, decision.result)

    def stage(self, transactional_id: TransactionalId, *partitions: TopicPartition) -> StagedWriter:
        writer = self.begin(transactional_id)
        self.add(writer.producer, *(partitions or (A,)), protocol_version=2, of=transactional_id)
        return writer

    def publish(
        self, batch_id: int, *writers: StagedWriter, is_commit: bool = True, application_id: str = APP
    ) -> Decision[PublishResult]:
        publish = PublishBatch(TransactionalId(application_id), batch_id, is_commit, writers, ProducerId(50))
        return self.take(lambda: self.machine.decide_publish(publish, self.now))

    def refused(self, batch_id: int, *writers: StagedWriter, **options: Any) -> Refusal:
        before = self.snapshot()
        with pytest.raises(Refusal) as refusal:
            self.publish(batch_id, *writers, **options)
        assert self.snapshot() == before
        return refusal.value

    def states(self, *transactional_ids: TransactionalId) -> list[TransactionState]:
        return [self.machine.transactions[each].state for each in transactional_ids]

    @property
    def application(self) -> TransactionStored:
        return self.machine.transactions[APP]

    def snapshot(self) -> object:
        staging = {key: list(ids) for key, ids in self.machine._staging.items()}
        return super().snapshot(), staging


def committed(decision: Decision[object]) -> dict[str, bool]:
    return {markers.transactional_id: markers.is_commit for markers in markers_in(decision)}


def test_all_writers_are_committed_and_the_batch_remembered_in_one_decision() -> None:
    sink = Sink()
    first, second = sink.stage(FIRST, A, B), sink.stage(SECOND, B)
    decision = sink.publish(0, first, second)

    assert decision.result == PublishResult(is_replay=False, published_batch_id=0)
    assert [(event.transactional_id, event.state) for event in _stored(decision)] == [
        (FIRST, PREPARE_COMMIT),
        (SECOND, PREPARE_COMMIT),
        (APP, EMPTY),
    ]
    markers = {each.transactional_id: each for each in markers_in(decision)}
    assert (markers[FIRST].partitions, markers[SECOND].partitions) == ({A, B}, {B})
    assert all(each.is_commit and each.protocol_version == 2 for each in markers.values())
    assert markers[FIRST].producer_epoch == first.producer.epoch + 1, "so that a zombie is told from its successor"
    assert (sink.application.producer_id, sink.application.published_batch_id) == (50, 0)
    sink.write_markers(decision)
    assert sink.states(FIRST, SECOND) == [COMPLETE_COMMIT] * 2


def test_a_batch_without_rows_is_remembered_as_well() -> None:
    sink = Sink()

    assert sink.publish(3).result == PublishResult(False, 3)
    assert sink.publish(3).result == PublishResult(True, 3)
    assert sink.publish(4).result == PublishResult(False, 4)
    assert sink.application.producer_id == 50


def test_a_replay_is_aborted_and_answered_as_before() -> None:
    sink = Sink()
    sink.write_markers(sink.publish(7, sink.stage(FIRST)))
    again, straggler = sink.stage(FIRST), sink.stage(SECOND)
    decision = sink.publish(7, again)

    assert decision.result == PublishResult(is_replay=True, published_batch_id=7)
    assert committed(decision) == {FIRST: False, SECOND: False}
    assert sink.refused(8, straggler).code is ErrorCode.INVALID_TXN_STATE


def test_a_request_whose_answer_was_lost_is_answered_again_whether_the_markers_are_written_or_not() -> None:
    sink = Sink()
    writer = sink.stage(FIRST)
    decision = sink.publish(7, writer)
    for _ in range(2):
        again = sink.publish(7, writer)
        assert (again.events, again.result, again.effects) == ([], PublishResult(True, 7), [])
        sink.write_markers(decision)
    assert sink.states(FIRST) == [COMPLETE_COMMIT]


def test_a_delayed_request_leaves_the_writers_of_the_next_batch_alone() -> None:
    sink = Sink()
    writer = sink.stage(FIRST)
    sink.write_markers(sink.publish(7, writer))
    following = [sink.stage(FIRST), sink.stage(SECOND)]

    assert sink.publish(7, writer).events == []
    assert sink.publish(7, writer, is_commit=False).events == []
    assert sink.publish(8, *following).result == PublishResult(False, 8)
    assert sink.refused(7, writer).code is ErrorCode.INVALID_UPDATE_VERSION


def test_an_older_batch_is_refused_and_says_what_to_do() -> None:
    sink = Sink()
    sink.publish(7)
    refusal = sink.refused(6, sink.stage(FIRST))

    assert refusal.code is ErrorCode.INVALID_UPDATE_VERSION
    assert "another application id" in str(refusal)
    assert sink.states(FIRST) == [ONGOING]


def test_a_publication_aborts_the_applications_other_open_writers() -> None:
    """A speculative duplicate, and a task that failed: neither is named."""
    sink = Sink()
    winner, loser, other = sink.stage(SECOND), sink.stage(THIRD), sink.stage(staging_id("other", "0-0"))
    decision = sink.publish(0, winner)

    assert committed(decision) == {SECOND: True, THIRD: False}
    assert sink.states(other.transactional_id) == [ONGOING], "it is another application's"
    with pytest.raises(Refusal) as refusal:
        sink.add(loser.producer, B, protocol_version=2, of=THIRD)
    assert refusal.value.code is ErrorCode.PRODUCER_FENCED


def test_a_zombie_of_a_published_writer_is_fenced() -> None:
    sink = Sink()
    writer = sink.stage(FIRST)
    decision = sink.publish(0, writer)
    for _ in range(2):
        with pytest.raises(Refusal) as refusal:
            sink.add(writer.producer, B, protocol_version=2, of=FIRST)
        assert refusal.value.code is ErrorCode.PRODUCER_FENCED
        sink.write_markers(decision)


def test_a_batch_is_published_as_a_whole_or_not_at_all() -> None:
    sink = Sink()
    good = sink.stage(FIRST)
    unknown = StagedWriter(THIRD, good.producer)
    taken_over = sink.stage(SECOND)
    successor = sink.stage(SECOND)

    assert sink.refused(0, good, unknown).code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert sink.refused(0, good, taken_over).code is ErrorCode.PRODUCER_FENCED
    of_another = successor._replace(producer=successor.producer._replace(producer_id=ProducerId(99)))
    assert sink.refused(0, good, of_another).code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert sink.publish(0, good, successor).result == PublishResult(False, 0)


def test_a_writer_that_wrote_nothing_has_nothing_to_publish() -> None:
    sink = Sink()
    refusal = sink.refused(0, sink.begin(FIRST))

    assert refusal.code is ErrorCode.INVALID_TXN_STATE
    assert "left out" in str(refusal)


def test_a_writer_that_timed_out_keeps_the_batch_from_being_published() -> None:
    sink = Sink()
    late, early = sink.stage(FIRST), sink.stage(SECOND)
    sink.advance(TIMEOUT_MS)
    timed_out = sink.due()

    for written in (False, True):
        refusal = sink.refused(0, late)
        assert (refusal.code, f"{TIMEOUT_MS} ms" in str(refusal)) == (ErrorCode.INVALID_TXN_STATE, True)
        if not written:
            for decision in timed_out:
                sink.write_markers(decision)
    assert sink.publish(0, late, early, is_commit=False).events == []


def test_an_abort_ends_the_named_writers_that_are_open_and_remembers_nothing() -> None:
    sink = Sink()
    first, second, unnamed = sink.stage(FIRST), sink.stage(SECOND), sink.stage(THIRD)
    stale = second._replace(producer=second.producer._replace(epoch=second.producer.epoch + 1))
    unknown = StagedWriter(staging_id(APP, "9-9"), first.producer)
    decision = sink.publish(0, first, stale, unknown, is_commit=False)

    assert decision.result == PublishResult(False, NO_BATCH_ID)
    assert committed(decision) == {FIRST: False}
    assert APP not in sink.machine.transactions
    assert sink.publish(0, second, unnamed).result == PublishResult(False, 0)


def test_an_abort_after_the_publish_changes_nothing() -> None:
    sink = Sink()
    writer = sink.stage(FIRST)
    decision = sink.publish(4, writer)
    for _ in range(2):
        aborted = sink.publish(4, writer, is_commit=False)
        assert (aborted.events, aborted.result) == ([], PublishResult(False, 4))
        sink.write_markers(decision)


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_plain_end_by_a_writer_stays_possible_and_concerns_it_alone(is_commit: bool) -> None:
    sink = Sink()
    alone, other = sink.stage(FIRST), sink.stage(SECOND)
    sink.end(alone.producer, is_commit=is_commit, protocol_version=2, of=FIRST)

    assert sink.refused(0, alone, other).code in {ErrorCode.INVALID_TXN_STATE, ErrorCode.PRODUCER_FENCED}
    assert committed(sink.publish(0, other)) == {SECOND: True}


def test_a_writer_in_the_last_epoch_is_published_and_its_successor_has_another_producer_id() -> None:
    last = stored(ONGOING, epoch=EPOCH_OF_CLIENT_MAX, transactional_id=FIRST)
    sink = Sink(last)
    decision = sink.publish(0, StagedWriter(FIRST, ProducerIdentity(ProducerId(7), EPOCH_OF_CLIENT_MAX)))

    assert [each.producer_epoch for each in markers_in(decision)] == [EPOCH_MAX]
    sink.write_markers(decision)
    assert sink.begin(FIRST).producer == ProducerIdentity(ProducerId(101), 0)


def test_a_producer_that_uses_the_application_id_itself_is_not_disturbed() -> None:
    sink = Sink()
    plain = sink.stage(APP)
    sink.publish(5, sink.stage(FIRST))
    assert sink.states(APP) == [ONGOING]
    end = sink.end(plain.producer, is_commit=True, protocol_version=2, of=APP)
    sink.write_markers(end)

    sink.begin(APP)
    assert sink.application.published_batch_id == 5, "what is remembered outlives whatever the producer does"
    assert sink.publish(5).result == PublishResult(True, 5)


@pytest.mark.parametrize(
    ("application_id", "batch_id", "times", "reason"),
    [
        ("", 0, 1, "empty"),
        (f"{FIRST}::staging::", 0, 1, "contains"),
        ("ap", 0, 1, "must begin with 'ap::staging::'"),
        (APP, -1, 1, "negative"),
        (APP, 0, 2, "named twice"),
    ],
)
@pytest.mark.parametrize("is_commit", [True, False])
def test_a_contradictory_request_is_refused(
    application_id: str, batch_id: int, times: int, reason: str, is_commit: bool
) -> None:
    sink = Sink()
    writers = [sink.stage(FIRST)] * times
    refusal = sink.refused(batch_id, *writers, is_commit=is_commit, application_id=application_id)

    assert refusal.code is ErrorCode.INVALID_REQUEST
    assert reason in str(refusal)


def test_the_number_of_writers_is_bounded() -> None:
    sink = Sink(settings=Settings(headwater_publish_writers_max=1))
    refusal = sink.refused(0, sink.stage(FIRST), sink.stage(SECOND))

    assert refusal.code is ErrorCode.POLICY_VIOLATION
    assert "headwater.publish.writers.max" in str(refusal)


def test_an_application_counts_as_one_transactional_id() -> None:
    sink = Sink(settings=Settings(headwater_transactions_max=1))
    writer = sink.stage(FIRST)

    assert sink.refused(0, writer).code is ErrorCode.POLICY_VIOLATION
    assert committed(sink.publish(0, writer, is_commit=False)) == {FIRST: False}


def test_the_events_of_one_decision_are_bounded_and_further_stragglers_wait() -> None:
    many = [TopicPartition(TopicName("topic"), number) for number in range(100)]
    sink = Sink(settings=Settings(transaction_state_log_segment_bytes=1500))
    writers = [sink.stage(each, *many) for each in (FIRST, SECOND, THIRD)]

    assert sink.refused(0, *writers).code is ErrorCode.POLICY_VIOLATION
    assert committed(sink.publish(0, writers[2])) == {THIRD: True, FIRST: False}
    assert sink.states(SECOND) == [ONGOING]
    assert committed(sink.publish(1)) == {SECOND: False}


def test_an_application_is_remembered_for_longer_than_its_writers() -> None:
    settings = Settings(transactional_id_expiration_ms=1000, headwater_application_id_expiration_ms=5000)
    sink = Sink(settings=settings)
    sink.write_markers(sink.publish(0, sink.stage(FIRST)))
    sink.advance(4999)
    sink.expire()
    assert sink.machine.transactions.keys() == {APP}
    sink.advance(1)
    sink.expire()

    assert not sink.machine.transactions
    assert sink.publish(0).result == PublishResult(False, 0), "which is why it is kept for so long"


def test_writers_that_end_or_are_forgotten_leave_nothing_in_the_index() -> None:
    settings = Settings(transactional_id_expiration_ms=1000, headwater_application_id_expiration_ms=1000)
    sink = Sink(settings=settings)
    sink.write_markers(sink.publish(0, sink.stage(FIRST), sink.stage(SECOND)))
    sink.stage(THIRD)
    sink.advance(TIMEOUT_MS)
    for decision in sink.due():
        sink.write_markers(decision)
    sink.advance(1000)
    sink.expire()

    assert (sink.machine.transactions, sink.machine._staging) == ({}, {})


def test_an_application_is_described_with_its_last_published_batch() -> None:
    sink = Sink()
    sink.publish(12, sink.stage(FIRST))

    assert sink.machine.describe(APP).published_batch_id == 12
    assert sink.machine.describe(FIRST).published_batch_id == NO_BATCH_ID


def _stored(decision: Decision[object]) -> Sequence[TransactionStored]:
    assert all(isinstance(event, TransactionStored) for event in decision.events)
    return [event for event in decision.events if isinstance(event, TransactionStored)]
