"""Time-outs and expiry, and the first decisions of a machine rebuilt from its log."""

import pytest

from headwater.coordination.decisions import Now
from headwater.coordination.transactions.events import TimeLimitSet, TransactionForgotten, TransactionState
from headwater.coordination.transactions.transitions import markers_of
from headwater.ids import TransactionalId
from tests.coordination.transactions.driver import ORDERS, START, TIMEOUT_MS, A, Driver, markers_in, producer, stored

CLIENT = producer(7, 5)
OPEN = stored(TransactionState.ONGOING, start_timestamp_ms=START.wall_ms)


def test_a_transaction_that_stays_open_is_aborted_after_its_time_out() -> None:
    driver = Driver(stored(TransactionState.EMPTY))
    driver.add(CLIENT, A)
    driver.advance(TIMEOUT_MS - 1)
    assert driver.due() == []
    driver.advance(1)

    (decision,) = driver.due()
    assert decision.effects == [markers_of(driver.transaction)]
    assert driver.transaction.state is TransactionState.PREPARE_ABORT
    assert driver.transaction.producer_epoch == 6
    assert driver.machine.next_deadline_ms() is None


def test_an_ended_transaction_does_not_time_out() -> None:
    driver = Driver(stored(TransactionState.EMPTY))
    driver.add(CLIENT, A)
    driver.end(CLIENT, is_commit=True)

    assert driver.machine.next_deadline_ms() is None


def test_transactions_time_out_in_the_order_of_their_deadlines() -> None:
    names = [TransactionalId(name) for name in ("late", "early")]
    driver = Driver(*(OPEN._replace(transactional_id=name) for name in names))
    for name, due_ms in zip(names, (200, 100), strict=True):
        driver.machine.apply(TimeLimitSet(name, due_ms))
    driver.advance(300)

    aborted = [effect.transactional_id for decision in driver.due() for effect in markers_in(decision)]
    assert aborted == ["early", "late"]


@pytest.mark.parametrize(
    ("passed_ms", "left_ms"),
    [(0, TIMEOUT_MS), (20_000, TIMEOUT_MS - 20_000), (TIMEOUT_MS, 0), (10**9, 0), (-5_000, TIMEOUT_MS)],
)
def test_after_a_restart_a_transaction_has_the_rest_of_its_time_out(passed_ms: int, left_ms: int) -> None:
    driver = Driver(OPEN)
    driver.now = Now(START.wall_ms + passed_ms, 77)
    driver.loaded()

    assert driver.machine.next_deadline_ms() == 77 + left_ms


def test_after_a_restart_markers_of_decided_transactions_are_written() -> None:
    names = {state: TransactionalId(state.name) for state in TransactionState}
    driver = Driver(*(stored(state)._replace(transactional_id=name) for state, name in names.items()))

    decision = driver.loaded()
    markers = {each.transactional_id: each for each in markers_in(decision)}
    assert {name: each.is_commit for name, each in markers.items()} == {
        "PREPARE_COMMIT": True,
        "PREPARE_ABORT": False,
        "PREPARE_EPOCH_FENCE": False,
    }
    driver.write_markers(decision)
    assert {driver.machine.transactions[name].state.name for name in markers} == {"COMPLETE_COMMIT", "COMPLETE_ABORT"}
    assert "DEAD" not in driver.machine.transactions


def test_markers_written_twice_complete_a_transaction_once() -> None:
    driver = Driver(stored(TransactionState.PREPARE_ABORT))
    (markers,) = markers_in(driver.loaded())

    assert len(driver.written(markers).events) == 1
    assert driver.written(markers).events == []


def test_unused_ids_expire_unless_a_transaction_is_open() -> None:
    names = {state: TransactionalId(state.name) for state in TransactionState if state is not TransactionState.DEAD}
    driver = Driver(*(stored(state)._replace(transactional_id=name) for state, name in names.items()))
    driver.advance(driver.settings.transactional_id_expiration_ms - 6)
    assert driver.expire().events == []
    driver.advance(1)

    assert set(driver.expire().events) == {
        TransactionForgotten(names[state])
        for state in (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
    }
    assert len(driver.machine.transactions) == 4


def test_an_id_used_before_its_expiry_stays() -> None:
    driver = Driver(stored(TransactionState.EMPTY))
    driver.advance(driver.settings.transactional_id_expiration_ms - 6)
    driver.init()
    driver.advance(1_000)

    assert driver.expire().events == []
    assert ORDERS in driver.machine.transactions
