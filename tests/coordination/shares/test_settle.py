"""What share-partitions decide for clients that hold records by receipts, not as members."""

from collections.abc import Collection

from headwater.coordination.shares.commands import Acquire, LogBatch, RecordsAvailable, Settled, Verdict
from headwater.coordination.shares.limits import ShareLimits
from headwater.coordination.shares.terms import AcknowledgeType, SharePartitionId
from headwater.ids import GroupId, MemberId
from tests.coordination.shares.driver import (
    ACCEPT,
    ANN,
    GAP,
    LOCK_MS,
    ORDERS,
    REJECT,
    RELEASE,
    RENEW,
    UNLIMITED,
    Driver,
)

FIRST, SECOND = MemberId("receive-1"), MemberId("receive-2")


def settle(
    driver: Driver, hold: MemberId, offsets: Collection[int], kind: AcknowledgeType, duration_ms: int | None = None
) -> Settled:
    verdict = Verdict(kind, duration_ms)
    return driver.run(lambda: driver.machine.decide_settle(ORDERS, hold, offsets, verdict, driver.now))


def take_back(driver: Driver, hold: MemberId, first: int = 0) -> int:
    return driver.run(lambda: driver.machine.decide_return(ORDERS, hold, first))


def test_each_receipt_counts_for_itself() -> None:
    driver = Driver()
    driver.acquire(FIRST, (0, 9))
    assert settle(driver, FIRST, [3, 4, 7], ACCEPT).refused == frozenset()
    settled = settle(driver, FIRST, [2, 3, 8, 10, 99], ACCEPT)
    assert settled.refused == {3, 10, 99}
    assert settled.acknowledged.accepted == 2
    done = {offset for offset, (state, _) in driver.states().items() if state == "ACKNOWLEDGED"}
    assert done == {2, 3, 4, 7, 8}


def test_a_hold_that_another_has_taken_over_settles_nothing() -> None:
    driver = Driver()
    driver.acquire(FIRST, (0, 4))
    driver.advance(LOCK_MS)
    assert settle(driver, FIRST, [0, 1], ACCEPT).refused == {0, 1}
    driver.acquire(SECOND, (0, 4))
    before = driver.states()
    for kind in (ACCEPT, RELEASE, REJECT, RENEW):
        assert settle(driver, FIRST, [0, 1], kind).refused == {0, 1}
        assert settle(driver, ANN, [0, 1], kind).refused == {0, 1}
    assert driver.states() == before


def test_what_has_gone_with_its_group_cannot_be_settled() -> None:
    driver = Driver()
    driver.acquire(FIRST, (0, 4))
    driver.forget(lambda _: True)
    assert settle(driver, FIRST, [0, 1], ACCEPT).refused == {0, 1}
    assert take_back(driver, FIRST) == 0


def test_a_released_record_waits_for_as_long_as_its_client_says() -> None:
    driver = Driver(ShareLimits(backoff_ms=100))
    driver.acquire(FIRST, (0, 2))
    assert settle(driver, FIRST, [0], RELEASE, 5000).acknowledged.released == 1
    settle(driver, FIRST, [1], RELEASE, 0)
    settle(driver, FIRST, [2], RELEASE)
    assert driver.acquire(SECOND, (0, 2)) == [(1, 1, 2)]
    driver.advance(100)
    assert driver.acquire(SECOND, (0, 2)) == [(2, 2, 2)]
    driver.advance(4899)
    assert driver.acquire(SECOND, (0, 2)) == []
    driver.advance(1)
    assert driver.acquire(SECOND, (0, 2)) == [(0, 0, 2)]


def test_a_released_record_without_an_attempt_left_is_archived_at_once() -> None:
    driver = Driver(ShareLimits(delivery_count_max=1))
    driver.acquire(FIRST, (0, 1))
    assert settle(driver, FIRST, [0], RELEASE, 5000).acknowledged.exhausted == 1
    assert driver.share.runs.start == 1


def test_a_hold_is_as_long_as_its_client_says() -> None:
    driver = Driver()
    command = Acquire(FIRST, [LogBatch(0, 4, True)], UNLIMITED, lock_duration_ms=LOCK_MS // 2)
    driver.run(lambda: driver.machine.decide_acquire(ORDERS, command, driver.now))
    settle(driver, FIRST, [1], RENEW)
    settle(driver, FIRST, [2], RENEW, 4 * LOCK_MS)
    driver.advance(LOCK_MS // 2)
    assert driver.acquire(SECOND, (0, 4)) == [(0, 0, 2), (3, 4, 2)]
    driver.advance(LOCK_MS // 2)
    assert settle(driver, FIRST, [1, 2], ACCEPT).refused == {1}


def test_what_did_not_reach_its_client_was_not_delivered() -> None:
    driver = Driver()
    driver.acquire(FIRST, (0, 9))
    driver.acquire(ANN, (10, 19))
    driver.effects.clear()
    log = list(driver.log)
    assert take_back(driver, FIRST, 4) == 6
    assert driver.effects == [RecordsAvailable(ORDERS)]
    assert driver.log == log, "nothing of it is stored"
    assert driver.acquire(SECOND, (0, 19)) == [(4, 9, 1)]
    assert settle(driver, FIRST, range(10), ACCEPT).refused == set(range(4, 10))
    assert take_back(driver, FIRST) == 0


def test_offsets_without_a_record_are_done_with() -> None:
    driver = Driver()
    driver.acquire(FIRST, (0, 9))
    assert settle(driver, FIRST, [0, 1, 5], GAP).refused == frozenset()
    assert driver.share.runs.start == 2
    assert driver.states()[5] == ("ARCHIVED", 1)


def test_settlements_survive_a_restart_and_holds_end_with_it() -> None:
    driver = Driver()
    driver.acquire(FIRST, (0, 9))
    settle(driver, FIRST, [2, 5], ACCEPT)
    settle(driver, FIRST, [6], RELEASE, 60_000)
    driver.restart()
    assert settle(driver, FIRST, [0, 1], ACCEPT).refused == {0, 1}
    assert driver.acquire(SECOND, (0, 9)) == [(0, 1, 1), (3, 4, 1), (6, 6, 2), (7, 9, 1)]


def test_a_machine_that_knows_nothing_of_the_partition_refuses_all_receipts() -> None:
    driver = Driver(start_offset=None)
    unknown = SharePartitionId(GroupId("none"), ORDERS.topic_id, 0)
    settled = driver.run(
        lambda: driver.machine.decide_settle(unknown, FIRST, [0], Verdict(ACCEPT), driver.now),
    )
    assert settled.refused == {0}
