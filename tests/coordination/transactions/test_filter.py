"""DescribeTransactions and ListTransactions with each of its filters."""

from collections.abc import Collection

import pytest

from headwater.coordination.transactions.commands import TransactionDescription
from headwater.coordination.transactions.events import TransactionState
from headwater.coordination.transactions.filter import read_filter
from headwater.errors import ErrorCode, Refusal
from headwater.ids import TransactionalId
from tests.coordination.transactions.driver import ORDERS, START, TIMEOUT_MS, A, Driver, producer, stored

MACHINE = Driver(
    stored(TransactionState.EMPTY, 1)._replace(transactional_id=TransactionalId("sales-1")),
    stored(TransactionState.ONGOING, 2)._replace(transactional_id=TransactionalId("sales-2")),
    stored(TransactionState.COMPLETE_ABORT, 3)._replace(transactional_id=TransactionalId("stock")),
).machine


def listed(
    states: Collection[str] = (), producer_ids: Collection[int] = (), duration_ms: int = -1, pattern: str | None = None
) -> list[str]:
    wanted, _ = read_filter(states, producer_ids, duration_ms, pattern)
    return [each.transactional_id for each in MACHINE.listings(wanted, START)]


def test_without_filters_all_transactions_are_listed() -> None:
    wanted, unknown = read_filter([], [], -1, None)

    assert [tuple(each) for each in MACHINE.listings(wanted, START)] == [
        ("sales-1", 1, TransactionState.EMPTY),
        ("sales-2", 2, TransactionState.ONGOING),
        ("stock", 3, TransactionState.COMPLETE_ABORT),
    ]
    assert unknown == []


def test_filtering_by_state() -> None:
    assert listed(["Ongoing", "CompleteAbort"]) == ["sales-2", "stock"]
    assert listed(["Dead", "PrepareEpochFence"]) == []


def test_unknown_states_are_reported_and_match_no_transaction() -> None:
    wanted, unknown = read_filter(["Ongoing", "ongoing", "ongoing", ""], [], -1, None)

    assert unknown == ["ongoing", ""]
    assert [each.transactional_id for each in MACHINE.listings(wanted, START)] == ["sales-2"]
    assert listed(["no such state"]) == []


def test_filtering_by_producer_id() -> None:
    assert listed(producer_ids=[3, 1, 99]) == ["sales-1", "stock"]


@pytest.mark.parametrize(
    ("duration_ms", "ids"),
    [
        (0, ["sales-1", "sales-2", "stock"]),
        (9, ["sales-1", "sales-2", "stock"]),
        # An id that never had a transaction passes the filter, as in Kafka.
        (10, ["sales-1"]),
        (-5, ["sales-1", "sales-2", "stock"]),
    ],
)
def test_filtering_by_duration(duration_ms: int, ids: list[str]) -> None:
    assert listed(duration_ms=duration_ms) == ids


def test_filtering_by_a_pattern_for_the_whole_id() -> None:
    assert listed(pattern="sales-.") == ["sales-1", "sales-2"]
    assert listed(pattern="sales") == []
    assert listed(pattern="") == ["sales-1", "sales-2", "stock"]


def test_filters_are_combined_with_and() -> None:
    assert listed(["Empty", "Ongoing"], [2, 3], 5, "s.*") == ["sales-2"]


def test_an_invalid_pattern_is_refused() -> None:
    with pytest.raises(Refusal) as refusal:
        listed(pattern="(")
    assert refusal.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_transaction_is_described() -> None:
    driver = Driver(stored(TransactionState.ONGOING))

    assert driver.machine.describe(ORDERS) == TransactionDescription(
        ORDERS, producer(7, 5), TransactionState.ONGOING, TIMEOUT_MS, START.wall_ms - 10, frozenset({A})
    )


def test_an_unknown_and_an_empty_id_are_refused() -> None:
    for name, code in ("no-such", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND), ("", ErrorCode.INVALID_REQUEST):
        with pytest.raises(Refusal) as refusal:
            MACHINE.describe(TransactionalId(name))
        assert refusal.value.code is code


def test_states_have_the_names_that_kafka_gives_them() -> None:
    assert [state.label for state in TransactionState] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]
