"""Locks in numbers: thousands of them may run out one after the other."""

from headwater.coordination.shares.limits import ShareLimits
from headwater.coordination.shares.share_partition import RUNS_CHECKED_PER_MS
from tests.coordination.shares.driver import ANN, LOCK_MS, Driver


def test_very_many_locks_that_run_out_are_checked_together() -> None:
    driver = Driver(ShareLimits(lock_duration_ms=LOCK_MS, locks_max=2000))
    for offset in range(1000):
        driver.acquire(ANN, (offset, offset))
        driver.advance(1)
    driver.effects.clear()
    driver.advance(LOCK_MS - 1000)
    for _ in range(1000 + 2000 // RUNS_CHECKED_PER_MS):
        driver.advance(1)
    assert driver.share.runs.acquired_count == 0
    checks = len(driver.effects)
    # One by one they would be checked a thousand times.
    assert checks < 500
