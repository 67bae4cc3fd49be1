"""InitProducerId: which client gets a transactional id, with which producer id and epoch, and which one is fenced."""

import pytest

from headwater.coordination.transactions.commands import ProducerIdentity
from headwater.coordination.transactions.events import TransactionState
from headwater.coordination.transactions.transitions import EPOCH_MAX, EPOCH_OF_CLIENT_MAX
from headwater.errors import ErrorCode, Refusal
from headwater.ids import TransactionalId
from tests.coordination.transactions.driver import (
    ORDERS,
    TIMEOUT_MS,
    A,
    B,
    Driver,
    Settings,
    markers_in,
    producer,
    stored,
)


def refused(driver: Driver, expected: ProducerIdentity | None = None, **fields: object) -> ErrorCode:
    with pytest.raises(Refusal) as refusal:
        driver.init(expected, **fields)
    return refusal.value.code


def test_a_new_id_begins_with_the_allocated_producer_id() -> None:
    driver = Driver()

    assert driver.init().result == producer(100, 0)
    assert driver.transaction.state is TransactionState.EMPTY
    assert driver.transaction.timeout_ms == TIMEOUT_MS


def test_an_expired_id_is_granted_to_a_client_that_names_its_identity() -> None:
    assert Driver().init(producer(7, 5)).result == producer(100, 0)


def test_a_restarted_client_gets_the_next_epoch_and_its_own_time_out() -> None:
    driver = Driver(stored(TransactionState.COMPLETE_COMMIT))

    assert driver.init(timeout_ms=5_000).result == producer(7, 6)
    assert driver.transaction.timeout_ms == 5_000
    assert driver.transaction.start_timestamp_ms == -1


def test_a_takeover_aborts_the_open_transaction_first() -> None:
    driver = Driver(stored(TransactionState.ONGOING))

    decision = driver.init()
    assert isinstance(decision.result, Refusal)
    assert decision.result.code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert [(each.producer_epoch, each.is_commit, each.partitions) for each in markers_in(decision)] == [
        (6, False, frozenset({A}))
    ]
    assert refused(driver) is ErrorCode.CONCURRENT_TRANSACTIONS, "the markers are not written yet"

    driver.write_markers(decision)
    assert driver.init().result == producer(7, 7)


def test_a_repeated_request_gets_the_same_answer() -> None:
    driver = Driver(stored(TransactionState.COMPLETE_ABORT))

    assert driver.init(producer(7, 5)).result == producer(7, 6)
    assert driver.init(producer(7, 5)).result == producer(7, 6)
    assert driver.init(producer(7, 6)).result == producer(7, 7)
    assert driver.init(producer(7, 6)).result == producer(7, 7)
    assert refused(driver, producer(7, 5)) is ErrorCode.PRODUCER_FENCED


def test_a_fenced_client_cannot_reinitialize() -> None:
    driver = Driver(stored(TransactionState.EMPTY))
    assert driver.init().result == producer(7, 6)

    assert refused(driver, producer(7, 5)) is ErrorCode.PRODUCER_FENCED


def test_a_delayed_request_does_not_disturb_a_later_transaction() -> None:
    driver = Driver(stored(TransactionState.EMPTY))
    driver.init(producer(7, 5))
    driver.add(producer(7, 6), A)

    assert refused(driver, producer(7, 5)) is ErrorCode.PRODUCER_FENCED
    assert driver.transaction.state is TransactionState.ONGOING

    driver.write_markers(driver.end(producer(7, 6), is_commit=True))
    assert refused(driver, producer(7, 5)) is ErrorCode.PRODUCER_FENCED
    assert driver.transaction.state is TransactionState.COMPLETE_COMMIT, "so that a repeated end is still recognized"


@pytest.mark.parametrize("expected", [None, producer(7, EPOCH_OF_CLIENT_MAX)])
def test_after_the_last_epoch_a_new_producer_id_follows(expected: ProducerIdentity | None) -> None:
    driver = Driver(stored(TransactionState.COMPLETE_COMMIT, epoch=EPOCH_OF_CLIENT_MAX))

    assert driver.init(expected).result == producer(100, 0)


def test_a_client_that_missed_its_new_producer_id_gets_it_again() -> None:
    last = producer(7, EPOCH_OF_CLIENT_MAX)
    driver = Driver(stored(TransactionState.EMPTY, epoch=EPOCH_OF_CLIENT_MAX))
    driver.init(last)
    driver.new_producer_id = 101

    assert driver.init(last).result == producer(100, 0)
    assert driver.init(producer(100, 0)).result == producer(100, 1)
    assert refused(driver, last) is ErrorCode.PRODUCER_FENCED


def test_a_client_that_missed_the_last_epoch_gets_it_again() -> None:
    driver = Driver(stored(TransactionState.EMPTY, epoch=EPOCH_OF_CLIENT_MAX - 1))
    last = producer(7, EPOCH_OF_CLIENT_MAX)

    assert driver.init(producer(7, EPOCH_OF_CLIENT_MAX - 1)).result == last
    assert driver.init(producer(7, EPOCH_OF_CLIENT_MAX - 1)).result == last


def test_a_client_that_timed_out_in_the_last_epoch_continues_with_a_new_producer_id() -> None:
    last = producer(7, EPOCH_OF_CLIENT_MAX)
    driver = Driver(stored(TransactionState.ONGOING, epoch=EPOCH_OF_CLIENT_MAX))
    driver.loaded()
    driver.advance(TIMEOUT_MS)
    for decision in driver.due():
        driver.write_markers(decision)
    assert driver.transaction.producer_epoch == EPOCH_MAX

    assert driver.init(last).result == producer(100, 0), "the highest epoch is no client's"
    assert driver.init(last).result == producer(100, 0)


def test_a_stored_id_in_the_highest_epoch_can_be_initialized() -> None:
    driver = Driver(stored(TransactionState.ONGOING, epoch=EPOCH_MAX))

    driver.write_markers(driver.init())
    assert driver.transaction.producer_epoch == EPOCH_MAX
    assert driver.init().result == producer(100, 0)


@pytest.mark.parametrize("timeout_ms", [-1, 0, 900_001])
def test_a_time_out_outside_the_bounds_is_refused(timeout_ms: int) -> None:
    assert refused(Driver(), timeout_ms=timeout_ms) is ErrorCode.INVALID_TRANSACTION_TIMEOUT


@pytest.mark.parametrize("timeout_ms", [1, 900_000])
def test_time_outs_at_the_bounds_are_accepted(timeout_ms: int) -> None:
    assert Driver().init(timeout_ms=timeout_ms).result == producer(100, 0)


def test_two_phase_commit_is_refused_as_kafka_refuses_it() -> None:
    driver = Driver()

    assert refused(driver, enable_two_phase=True) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert refused(driver, keep_prepared=True) is ErrorCode.UNSUPPORTED_VERSION
    assert (
        refused(driver, enable_two_phase=True, keep_prepared=True, timeout_ms=0)
        is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    )
    assert not driver.machine.transactions


def test_an_empty_id_is_refused() -> None:
    assert refused(Driver(), transactional_id=TransactionalId("")) is ErrorCode.INVALID_REQUEST


def test_a_new_id_beyond_the_length_limit_is_refused() -> None:
    """Many long ids would fill the memory, and their tombstones would not fit into one batch."""
    driver = Driver()
    longest = TransactionalId("x" * 1000)
    driver.init(transactional_id=longest)
    assert refused(driver, transactional_id=TransactionalId(longest + "x")) is ErrorCode.INVALID_REQUEST
    # A longer id from Kafka's log continues to work.
    kept = stored(TransactionState.EMPTY)._replace(transactional_id=TransactionalId(longest + "x"))
    assert Driver(kept).init(transactional_id=kept.transactional_id).result == producer(7, 6)


def test_the_number_of_ids_is_bounded_and_known_ones_continue() -> None:
    driver = Driver(settings=Settings(headwater_transactions_max=2))
    driver.init()
    driver.init(transactional_id=TransactionalId("second"))

    assert refused(driver, transactional_id=TransactionalId("third")) is ErrorCode.POLICY_VIOLATION
    assert driver.init().result == producer(100, 1)
    assert list(driver.machine.transactions) == [ORDERS, "second"]


def test_a_zombie_is_fenced_after_a_takeover() -> None:
    driver = Driver(stored(TransactionState.ONGOING))
    driver.write_markers(driver.init())
    driver.init()

    for version in (1, 2):
        with pytest.raises(Refusal) as adding:
            driver.add(producer(7, 5), B, protocol_version=version)
        with pytest.raises(Refusal) as ending:
            driver.end(producer(7, 5), is_commit=True, protocol_version=version)
        assert adding.value.code is ending.value.code is ErrorCode.PRODUCER_FENCED
