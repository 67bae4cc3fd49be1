"""Commit and abort in both protocols: the decision, its markers, and requests that are repeated or late."""

import pytest

from headwater.coordination.transactions.commands import ProducerIdentity, WriteMarkers
from headwater.coordination.transactions.events import TransactionState
from headwater.coordination.transactions.transitions import EPOCH_MAX, EPOCH_OF_CLIENT_MAX
from headwater.errors import ErrorCode, Refusal
from tests.coordination.transactions.driver import ORDERS, START, TIMEOUT_MS, A, B, Driver, markers_in, producer, stored

CLIENT = producer(7, 5)
LAST = producer(7, EPOCH_OF_CLIENT_MAX)


def refused_end(driver: Driver, who: ProducerIdentity, *, is_commit: bool, protocol_version: int) -> ErrorCode:
    before = driver.transaction
    with pytest.raises(Refusal) as refusal:
        driver.end(who, is_commit=is_commit, protocol_version=protocol_version)
    assert driver.transaction == before
    return refusal.value.code


def test_in_protocol_1_the_epoch_stays_for_the_next_transaction() -> None:
    driver = Driver(stored(TransactionState.EMPTY))
    driver.add(CLIENT, A, B)
    decision = driver.end(CLIENT, is_commit=True)

    assert decision.result == CLIENT
    assert decision.effects == [WriteMarkers(ORDERS, CLIENT.producer_id, 5, True, frozenset({A, B}), 1, START.wall_ms)]
    driver.write_markers(decision)
    assert driver.transaction.state is TransactionState.COMPLETE_COMMIT
    assert not driver.transaction.partitions
    driver.add(CLIENT, A)


@pytest.mark.parametrize("is_commit", [True, False])
def test_in_protocol_2_every_end_raises_the_epoch(is_commit: bool) -> None:
    driver = Driver(stored(TransactionState.EMPTY))
    driver.add(CLIENT, A, protocol_version=2)
    decision = driver.end(CLIENT, is_commit=is_commit, protocol_version=2)

    assert decision.result == producer(7, 6)
    assert decision.effects == [
        WriteMarkers(ORDERS, CLIENT.producer_id, 6, is_commit, frozenset({A}), 2, START.wall_ms)
    ]
    driver.write_markers(decision)
    assert driver.transaction.state.name == ("COMPLETE_COMMIT" if is_commit else "COMPLETE_ABORT")
    again = driver.end(CLIENT, is_commit=is_commit, protocol_version=2)
    assert (again.events, again.result, again.effects) == ([], producer(7, 6), ())


def test_in_protocol_2_a_delayed_end_cannot_decide_the_next_transaction() -> None:
    driver = Driver(stored(TransactionState.EMPTY))
    driver.add(CLIENT, A, protocol_version=2)
    driver.write_markers(driver.end(CLIENT, is_commit=False, protocol_version=2))
    driver.add(producer(7, 6), B, protocol_version=2)

    for is_commit in (True, False):
        assert refused_end(driver, CLIENT, is_commit=is_commit, protocol_version=2) is ErrorCode.PRODUCER_FENCED


def test_in_protocol_1_a_delayed_end_decides_the_next_transaction_a_known_limit() -> None:
    driver = Driver(stored(TransactionState.EMPTY))
    driver.add(CLIENT, A)
    driver.write_markers(driver.end(CLIENT, is_commit=True))
    driver.add(CLIENT, B)

    assert driver.end(CLIENT, is_commit=True).effects, "nothing tells it from one that is meant for this transaction"


def test_a_producer_in_the_next_epoch_waits_for_the_markers() -> None:
    driver = Driver(stored(TransactionState.ONGOING, protocol_version=2))
    decision = driver.end(CLIENT, is_commit=True, protocol_version=2)

    with pytest.raises(Refusal) as refusal:
        driver.add(producer(7, 6), B, protocol_version=2)
    assert refusal.value.code is ErrorCode.CONCURRENT_TRANSACTIONS
    driver.write_markers(decision)
    driver.add(producer(7, 6), B, protocol_version=2)
    assert driver.transaction.partitions == {B}


def test_after_the_last_epoch_an_end_returns_a_new_producer_id_at_once() -> None:
    driver = Driver(stored(TransactionState.ONGOING, epoch=EPOCH_OF_CLIENT_MAX))
    decision = driver.end(LAST, is_commit=True, protocol_version=2)

    assert decision.result == producer(100, 0)
    assert [(each.producer_id, each.producer_epoch) for each in markers_in(decision)] == [(7, EPOCH_MAX)]
    with pytest.raises(Refusal) as refusal:
        driver.add(producer(100, 0), A, protocol_version=2)
    assert refusal.value.code is ErrorCode.CONCURRENT_TRANSACTIONS, "it is known, though not yet its turn"
    assert refused_end(driver, LAST, is_commit=True, protocol_version=2) is ErrorCode.CONCURRENT_TRANSACTIONS

    driver.new_producer_id = 101
    driver.write_markers(decision)
    again = driver.end(LAST, is_commit=True, protocol_version=2)
    assert (again.events, again.result) == ([], producer(100, 0))
    driver.add(producer(100, 0), A, protocol_version=2)
    assert refused_end(driver, LAST, is_commit=True, protocol_version=2) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_in_protocol_1_an_end_does_not_raise_the_epoch() -> None:
    driver = Driver(stored(TransactionState.ONGOING, epoch=EPOCH_OF_CLIENT_MAX))

    assert driver.end(LAST, is_commit=True).result == LAST


def test_aborting_without_a_transaction_needs_no_markers_and_raises_the_epoch() -> None:
    driver = Driver(stored(TransactionState.EMPTY))
    decision = driver.end(CLIENT, is_commit=False, protocol_version=2)

    assert (decision.result, decision.effects) == (producer(7, 6), ())
    assert driver.transaction.state is TransactionState.COMPLETE_ABORT
    assert driver.transaction.start_timestamp_ms == START.wall_ms
    assert driver.end(CLIENT, is_commit=False, protocol_version=2).result == producer(7, 6)
    assert refused_end(driver, CLIENT, is_commit=True, protocol_version=2) is ErrorCode.INVALID_TXN_STATE


def test_aborting_without_a_transaction_in_the_last_epoch_needs_a_new_producer_id() -> None:
    driver = Driver(stored(TransactionState.COMPLETE_COMMIT, epoch=EPOCH_OF_CLIENT_MAX))

    assert driver.end(LAST, is_commit=False, protocol_version=2).result == producer(100, 0)
    driver.new_producer_id = 101
    assert driver.end(LAST, is_commit=False, protocol_version=2).result == producer(100, 0)
    assert driver.end(producer(100, 0), is_commit=False, protocol_version=2).result == producer(100, 1)


def test_a_client_of_protocol_2_recovers_from_a_time_out_by_its_abort() -> None:
    driver = Driver(stored(TransactionState.ONGOING))
    driver.loaded()
    driver.advance(TIMEOUT_MS)
    (decision,) = driver.due()

    assert refused_end(driver, CLIENT, is_commit=True, protocol_version=2) is ErrorCode.INVALID_TXN_STATE
    assert refused_end(driver, CLIENT, is_commit=False, protocol_version=2) is ErrorCode.CONCURRENT_TRANSACTIONS
    driver.write_markers(decision)
    assert refused_end(driver, CLIENT, is_commit=True, protocol_version=2) is ErrorCode.INVALID_TXN_STATE
    assert driver.end(CLIENT, is_commit=False, protocol_version=2).result == producer(7, 6)


def test_a_client_of_protocol_2_recovers_from_a_time_out_in_the_last_epoch() -> None:
    driver = Driver(stored(TransactionState.ONGOING, epoch=EPOCH_OF_CLIENT_MAX))
    driver.loaded()
    driver.advance(TIMEOUT_MS)
    for decision in driver.due():
        driver.write_markers(decision)

    assert driver.end(LAST, is_commit=False, protocol_version=2).result == producer(100, 0)
    driver.new_producer_id = 101
    assert driver.end(LAST, is_commit=False, protocol_version=2).result == producer(100, 0)


def test_a_client_of_protocol_1_is_fenced_by_a_time_out() -> None:
    driver = Driver(stored(TransactionState.ONGOING))
    driver.loaded()
    driver.advance(TIMEOUT_MS)
    driver.due()

    for is_commit in (True, False):
        assert refused_end(driver, CLIENT, is_commit=is_commit, protocol_version=1) is ErrorCode.PRODUCER_FENCED


def test_an_end_of_protocol_2_does_not_match_an_earlier_end_of_protocol_1() -> None:
    """A client at epoch 5 is taken over by an older client at 6, which commits. The epoch alone would suggest that the
    first one repeats its commit."""
    driver = Driver(stored(TransactionState.EMPTY))
    driver.init()
    driver.add(producer(7, 6), A)
    driver.write_markers(driver.end(producer(7, 6), is_commit=True))

    assert refused_end(driver, CLIENT, is_commit=True, protocol_version=2) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("protocol_version", [1, 2])
def test_markers_of_one_transaction_never_complete_another(protocol_version: int) -> None:
    """A marker task from before a reload may end at any time. In protocol 1 epoch and partitions can be the same."""
    driver = Driver(stored(TransactionState.EMPTY))
    driver.add(CLIENT, A, protocol_version=protocol_version)
    first = driver.end(CLIENT, is_commit=True, protocol_version=protocol_version)
    driver.write_markers(first)
    driver.add(first.result, A, protocol_version=protocol_version)
    second = driver.end(first.result, is_commit=True, protocol_version=protocol_version)

    (late,) = markers_in(first)
    assert driver.written(late).events == []
    assert driver.transaction.state is TransactionState.PREPARE_COMMIT
    driver.write_markers(second)
    assert driver.transaction.state is TransactionState.COMPLETE_COMMIT
