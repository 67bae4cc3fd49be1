"""AddPartitionsToTxn and its verify-only form: the partitions of a transaction."""

from collections.abc import Callable

import pytest

from headwater.coordination.transactions.events import TimeLimitSet, TransactionState, TransactionStored
from headwater.errors import ErrorCode, Refusal
from headwater.ids import TopicName, TopicPartition, TransactionalId
from tests.coordination.transactions.driver import ORDERS, START, TIMEOUT_MS, A, B, Driver, Settings, producer, stored

CLIENT = producer(7, 5)


def test_the_first_partition_begins_a_transaction_and_its_time_out() -> None:
    driver = Driver(stored(TransactionState.EMPTY))
    driver.advance(40)

    begun, limit = driver.add(CLIENT, A, protocol_version=2).events
    assert isinstance(begun, TransactionStored)
    assert (begun.partitions, begun.protocol_version, begun.start_timestamp_ms) == ({A}, 2, START.wall_ms + 40)
    assert limit == TimeLimitSet(ORDERS, 40 + TIMEOUT_MS)


def test_further_partitions_neither_restart_nor_extend_a_transaction() -> None:
    driver = Driver(stored(TransactionState.EMPTY))
    driver.add(CLIENT, A)
    driver.advance(1_000)

    (extended,) = driver.add(CLIENT, A, B).events
    assert isinstance(extended, TransactionStored)
    assert extended.partitions == {A, B}
    assert extended.start_timestamp_ms == START.wall_ms
    assert extended.update_timestamp_ms == START.wall_ms + 1_000
    assert driver.machine.next_deadline_ms() == TIMEOUT_MS


def test_adding_a_partition_again_creates_no_event() -> None:
    driver = Driver(stored(TransactionState.EMPTY))
    driver.add(CLIENT, A, B)

    assert driver.add(CLIENT, B).events == []


def test_transactions_of_one_epoch_have_different_start_times_even_if_the_clock_stands_still() -> None:
    driver = Driver(stored(TransactionState.EMPTY))
    starts: list[int] = []
    for step_ms in (0, 0, -5_000, 0):
        driver.advance(step_ms)
        driver.add(CLIENT, A)
        starts.append(driver.transaction.start_timestamp_ms)
        driver.write_markers(driver.end(CLIENT, is_commit=True))

    assert starts == [START.wall_ms + count for count in range(4)]


def test_the_number_of_partitions_of_a_transaction_is_bounded() -> None:
    driver = Driver(stored(TransactionState.EMPTY), settings=Settings(headwater_transaction_partitions_max=3))
    many = [TopicPartition(TopicName("t"), number) for number in range(4)]
    driver.add(CLIENT, *many[:3])

    with pytest.raises(Refusal, match="at most 3 partitions") as refusal:
        driver.add(CLIENT, many[3])
    assert refusal.value.code is ErrorCode.TRANSACTION_ABORTABLE
    driver.add(CLIENT, *many[:2])


def test_the_number_of_partitions_of_all_transactions_is_bounded() -> None:
    other = TransactionalId("other")
    driver = Driver(
        stored(TransactionState.EMPTY),
        stored(TransactionState.EMPTY)._replace(transactional_id=other),
        settings=Settings(headwater_transactions_partitions_max=2),
    )
    driver.add(CLIENT, A)
    with pytest.raises(Refusal, match="together have at most 2 partitions") as refusal:
        driver.add(CLIENT, A, B, of=other)
    assert refusal.value.code is ErrorCode.TRANSACTION_ABORTABLE
    driver.add(CLIENT, A, of=other)
    driver.add(CLIENT, A, of=other)

    driver.write_markers(driver.end(CLIENT, is_commit=True))
    driver.add(CLIENT, B, of=other)
    with pytest.raises(Refusal, match="together"):
        driver.add(CLIENT, A)


def test_each_partition_is_verified_separately() -> None:
    driver = Driver(stored(TransactionState.ONGOING))

    assert driver.verify(CLIENT, B, A) == [ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.NONE]
    assert driver.verify(CLIENT) == []


@pytest.mark.parametrize(
    "ask",
    [
        lambda driver: driver.add(CLIENT, A, of=""),
        lambda driver: driver.verify(CLIENT, A, of=""),
        lambda driver: driver.end(CLIENT, is_commit=True, of=""),
    ],
)
def test_an_empty_id_is_refused(ask: Callable[[Driver], object]) -> None:
    with pytest.raises(Refusal) as refusal:
        ask(Driver())
    assert refusal.value.code is ErrorCode.INVALID_REQUEST
