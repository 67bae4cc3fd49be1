"""What share-partitions decide about acknowledgements inside transactions."""

from collections.abc import Collection
from uuid import UUID

import pytest

from headwater.coordination.shares.commands import Acknowledged, RecordsAvailable, RecordsGivenUp, Settled
from headwater.coordination.shares.events import ShareSnapshotStored
from headwater.coordination.shares.limits import ShareLimits
from headwater.coordination.shares.state_requests import WriteState
from headwater.coordination.shares.terms import AcknowledgeType, SharePartitionId
from headwater.coordination.transactions.commands import PROTOCOL_1, PROTOCOL_2
from headwater.errors import ErrorCode, Refusal
from headwater.ids import GroupId, MemberId, ProducerId, TopicId
from headwater.protocol.batches.dead_letter_headers import Reason
from tests.coordination.shares.driver import ACCEPT, ANN, LOCK_MS, ORDERS, REJECT, RELEASE, RENEW, Driver

FIRST, SECOND = MemberId("receive-1"), MemberId("receive-2")
SEVEN, EIGHT = ProducerId(7), ProducerId(8)
OTHER = SharePartitionId(GroupId("billing"), TopicId(UUID(int=2)), 0)


def settle(
    driver: Driver,
    hold: MemberId,
    offsets: Collection[int],
    kind: AcknowledgeType = ACCEPT,
    producer: ProducerId = SEVEN,
    epoch: int = 0,
    share_id: SharePartitionId = ORDERS,
) -> Settled:
    machine = driver.machine
    return driver.run(lambda: machine.decide_settle_in_transaction(share_id, hold, offsets, kind, producer, epoch))


def end(
    driver: Driver,
    *,
    commit: bool,
    producer: ProducerId = SEVEN,
    marker_epoch: int = 1,
    protocol: int = PROTOCOL_2,
) -> dict[SharePartitionId, Acknowledged]:
    machine = driver.machine
    return dict(
        driver.run(
            lambda: machine.decide_end_transaction(producer, marker_epoch, protocol, driver.now, is_committed=commit)
        )
    )


def pending_of(driver: Driver) -> set[int]:
    return {offset for offset, (state, _) in driver.states().items() if state == "PENDING"}


def test_a_commit_accepts_and_rejects() -> None:
    driver = Driver(ShareLimits(has_dead_letters=True))
    driver.acquire(FIRST, (0, 4))
    assert settle(driver, FIRST, [0, 1, 4]).refused == frozenset()
    settle(driver, FIRST, [2], REJECT)
    assert pending_of(driver) == {0, 1, 2, 4}
    assert (driver.share.runs.start, driver.share.runs.acquired_count) == (0, 5)
    driver.effects.clear()
    assert end(driver, commit=True) == {ORDERS: Acknowledged(accepted=3, rejected=1)}
    assert driver.effects == [RecordsAvailable(ORDERS), RecordsGivenUp(ORDERS, has_letters=True)]
    assert [(each.first, each.reason) for each in driver.share.outbox.letters] == [(2, Reason.REJECTED)]
    assert (driver.share.runs.start, driver.states()) == (3, {3: ("ACQUIRED", 1), 4: ("ACKNOWLEDGED", 1)})


def test_an_abort_gives_the_records_back_and_the_delivery_counts() -> None:
    driver = Driver(ShareLimits(delivery_count_max=2, has_dead_letters=True))
    driver.acquire(FIRST, (0, 2))
    settle(driver, FIRST, [0, 1])
    settle(driver, FIRST, [2], REJECT)
    assert end(driver, commit=False) == {ORDERS: Acknowledged(released=3)}
    assert driver.acquire(SECOND, (0, 2)) == [(0, 2, 2)]
    settle(driver, SECOND, [0], epoch=1)
    assert end(driver, commit=False, marker_epoch=2) == {ORDERS: Acknowledged(released=1, exhausted=1)}
    assert driver.share.runs.start == 1, "it has no attempt left"
    assert [(each.first, each.reason) for each in driver.share.outbox.letters] == [(0, Reason.EXHAUSTED)]


def test_what_an_abort_gives_back_waits_as_any_other_record() -> None:
    driver = Driver(ShareLimits(backoff_ms=500))
    driver.acquire(FIRST, (0, 0))
    settle(driver, FIRST, [0])
    end(driver, commit=False)
    assert driver.states() == {0: ("WAITING", 1)}
    driver.advance(500)
    assert driver.acquire(SECOND, (0, 0)) == [(0, 0, 2)]


def test_pending_records_are_out_of_reach_until_the_end() -> None:
    driver = Driver()
    driver.acquire(FIRST, (0, 9))
    settle(driver, FIRST, range(5))
    assert driver.acquire(SECOND, (0, 9)) == []
    for hold in (FIRST, SECOND, ANN, MemberId("")):
        driver.release_all(hold)
        assert driver.run(lambda hold=hold: driver.machine.decide_return(ORDERS, hold, 0)) == 0
        for kind in (ACCEPT, RELEASE, REJECT, RENEW):
            with pytest.raises(Refusal, match="not held"):
                driver.acknowledge(hold, (0, 0, kind))
        assert settle(driver, hold, [0], producer=EIGHT).refused == {0}
    driver.advance(100 * LOCK_MS)
    assert pending_of(driver) == set(range(5))
    assert driver.acquire(SECOND, (0, 9)) == [(5, 9, 2)]


def test_each_receipt_counts_for_itself_and_may_be_repeated() -> None:
    driver = Driver()
    driver.acquire(FIRST, (0, 4))
    driver.acquire(SECOND, (5, 9))
    assert settle(driver, FIRST, [3, 4, 5, 99]).refused == {5, 99}
    log = list(driver.log)
    assert settle(driver, FIRST, [3, 4]).refused == frozenset(), "the answer was lost"
    assert driver.log == log
    assert settle(driver, FIRST, [2, 3], REJECT).refused == {3}, "it was accepted"
    assert settle(driver, FIRST, [4], producer=EIGHT).refused == {4}, "another transaction has it"


def test_many_requests_are_as_few_batches_as_one() -> None:
    driver = Driver()
    driver.acquire(FIRST, (0, 99))
    for offset in range(99, -1, -1):
        settle(driver, FIRST, [offset])
    pending = driver.share.pending.of(SEVEN)
    assert pending is not None
    assert [each[:2] for each in pending.batches] == [(0, 99)]


def test_transactions_of_several_producers_end_apart_and_in_all_their_share_partitions() -> None:
    driver = Driver()
    driver.begin(0, OTHER)
    driver.acquire(FIRST, (0, 4))
    settle(driver, FIRST, [0, 2])
    settle(driver, FIRST, [1], producer=EIGHT)
    driver.machine.apply(driver.log[-1]._replace(id=OTHER))  # type: ignore[attr-defined]
    assert end(driver, commit=True) == {ORDERS: Acknowledged(accepted=2)}
    assert pending_of(driver) == {1}
    assert set(end(driver, commit=False, producer=EIGHT)) == {ORDERS, OTHER}
    assert pending_of(driver) == set()
    assert end(driver, commit=True) == end(driver, commit=False, producer=EIGHT) == {}, "a marker may come again"


@pytest.mark.parametrize(
    ("marker_epoch", "protocol", "is_refused"),
    [
        (4, PROTOCOL_2, True),
        (5, PROTOCOL_2, True),
        (6, PROTOCOL_2, False),
        (4, PROTOCOL_1, True),
        (5, PROTOCOL_1, False),
    ],
)
def test_a_marker_of_an_earlier_transaction_ends_nothing(marker_epoch: int, protocol: int, is_refused: bool) -> None:
    driver = Driver()
    driver.acquire(FIRST, (0, 0))
    settle(driver, FIRST, [0], epoch=5)
    if is_refused:
        with pytest.raises(Refusal) as refusal:
            end(driver, commit=True, marker_epoch=marker_epoch, protocol=protocol)
        assert refusal.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
        assert pending_of(driver) == {0}
    else:
        end(driver, commit=True, marker_epoch=marker_epoch, protocol=protocol)
        assert driver.share.runs.start == 1


@pytest.mark.parametrize(("epoch", "code"), [(4, "INVALID_PRODUCER_EPOCH"), (6, "CONCURRENT_TRANSACTIONS")])
def test_only_the_transaction_that_is_open_may_add_to_it(epoch: int, code: str) -> None:
    driver = Driver()
    driver.acquire(FIRST, (0, 4))
    settle(driver, FIRST, [0], epoch=5)
    with pytest.raises(Refusal) as refusal:
        settle(driver, FIRST, [1], epoch=epoch)
    assert refusal.value.code.name == code


def test_pending_acknowledgements_survive_restarts_and_holds_do_not() -> None:
    driver = Driver(ShareLimits(delivery_count_max=2))
    driver.acquire(FIRST, (0, 9))
    settle(driver, FIRST, [2, 3])
    settle(driver, FIRST, [5], REJECT)
    driver.restart()
    assert driver.acquire(SECOND, (0, 9)) == [(0, 1, 1), (4, 4, 1), (6, 9, 1)]
    assert settle(driver, FIRST, [2]).refused == {2}, "a receipt ends with the broker's process"
    driver.restart()
    assert end(driver, commit=True) == {ORDERS: Acknowledged(accepted=2, rejected=1)}
    driver.restart()
    assert driver.acquire(SECOND, (0, 9)) == [(0, 1, 1), (4, 4, 1), (6, 9, 1)]


def test_a_snapshot_has_what_is_pending() -> None:
    driver = Driver()
    driver.acquire(FIRST, (0, 9))
    settle(driver, FIRST, [2, 3])
    settle(driver, FIRST, [4], producer=EIGHT)
    driver.run(lambda: driver.machine.decide_snapshots(driver.now))
    driver.restart(driver.log[-1:])
    assert pending_of(driver) == {2, 3, 4}
    assert driver.states()[2] == ("PENDING", 1)
    assert end(driver, commit=True, producer=EIGHT) == {ORDERS: Acknowledged(accepted=1)}
    assert end(driver, commit=False) == {ORDERS: Acknowledged(released=2)}
    assert driver.acquire(SECOND, (2, 3)) == [(2, 3, 2)]


def test_a_snapshot_that_comes_with_the_end_has_it_no_longer() -> None:
    driver = Driver(ShareLimits(updates_per_snapshot=1))
    driver.acquire(FIRST, (0, 9))
    settle(driver, FIRST, [2])
    settle(driver, FIRST, [4], producer=EIGHT)
    end(driver, commit=True)
    assert isinstance(driver.log[-1], ShareSnapshotStored)
    driver.restart(driver.log[-1:])
    assert driver.states()[2] == ("ACKNOWLEDGED", 1)
    assert pending_of(driver) == {4}


def test_records_that_retention_deletes_are_done_with() -> None:
    driver = Driver()
    driver.acquire(FIRST, (0, 9))
    settle(driver, FIRST, range(6))
    driver.run(lambda: driver.machine.decide_log_start(ORDERS, 3))
    assert end(driver, commit=False) == {ORDERS: Acknowledged(released=3)}
    driver.acquire(FIRST, (0, 9))
    settle(driver, FIRST, [3, 4], epoch=1)
    driver.run(lambda: driver.machine.decide_log_start(ORDERS, 10))
    assert end(driver, commit=True, marker_epoch=2) == {ORDERS: Acknowledged()}
    assert not driver.share.pending
    driver.restart()
    assert not driver.share.pending


def test_a_group_that_begins_again_or_goes_forgets_what_was_pending() -> None:
    driver = Driver()
    for epoch, forget in enumerate(
        (
            lambda: driver.run(lambda: driver.machine.decide_restart(ORDERS, 0, 0, driver.now)),
            lambda: (driver.forget(lambda _: True), driver.begin(0)),
        )
    ):
        driver.acquire(FIRST, (0, 4))
        settle(driver, FIRST, [0, 1], epoch=epoch)
        forget()
        assert end(driver, commit=True, marker_epoch=epoch + 1) == {}
        driver.restart()
        assert end(driver, commit=True, marker_epoch=epoch + 1) == {}
        assert driver.acquire(SECOND, (0, 4)) == [(0, 4, 1)]
        driver.release_all(SECOND)
        driver.run(lambda: driver.machine.decide_restart(ORDERS, 0, 0, driver.now))


def test_what_the_log_has_lost_is_not_pending() -> None:
    driver = Driver()
    driver.acquire(FIRST, (0, 9))
    settle(driver, FIRST, range(10))
    driver.run(lambda: driver.machine.decide_leader_epoch(ORDERS, 1, 6, driver.now))
    assert driver.acquire(SECOND, (0, 9)) == [(6, 9, 1)], "other records have these offsets now"
    assert end(driver, commit=True) == {ORDERS: Acknowledged(accepted=6)}
    assert driver.share.runs.start == 6


def test_another_broker_sees_pending_records_as_available_and_cannot_change_them() -> None:
    driver = Driver()
    driver.acquire(FIRST, (0, 4))
    settle(driver, FIRST, [1, 2])
    read = driver.run(lambda: driver.machine.decide_read(ORDERS, 0, driver.now))
    assert [tuple(each) for each in read.batches] == []
    write = WriteState(0, 0, -1, [(0, 4, 2, 3)])
    driver.run(lambda: driver.machine.decide_write(ORDERS, write, driver.now))
    assert pending_of(driver) == {1, 2}
    end(driver, commit=False)
    assert driver.acquire(SECOND, (0, 4)) == [(1, 2, 2)]


def test_a_share_partition_that_does_not_exist_refuses_all_receipts() -> None:
    driver = Driver(start_offset=None)
    assert settle(driver, FIRST, [0, 1]).refused == {0, 1}
