"""Brokers killed at the worst moments keep acknowledged records: once, in order and at their offsets."""

import os
import random
from pathlib import Path

import pytest

from tests.faults.kills.checking import check
from tests.faults.kills.failpoints import FAILPOINTS_BY_WORK
from tests.faults.kills.life import Life
from tests.faults.kills.lives import Kills, run

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("work", FAILPOINTS_BY_WORK)
def test_a_broker_that_dies_at_a_failpoint_keeps_its_promises(tmp_path: Path, work: str) -> None:
    """The broker is killed at a random moment, recovers, and then kills itself at the failpoint."""
    chance = random.Random(work)
    with Life(tmp_path) as life:
        for name, failpoint in FAILPOINTS_BY_WORK[work].items():
            life.die_at(name, chance.randint(1, failpoint.passages_max))
            life.recover()


def test_the_long_form_runs_and_counts_kills(tmp_path: Path) -> None:
    assert run(tmp_path, seed=1, kills_max=2) == Kills(lives=1, kills=2)


@pytest.mark.parametrize("partition", ["numbers-0", "compacted-0"])
def test_the_checks_detect_a_lost_batch(tmp_path: Path, partition: str) -> None:
    with Life(tmp_path) as life:
        life.loads.settle()
        life.broker.kill()
        newest = max(path for path in (tmp_path / "data" / partition).glob("*.log") if path.stat().st_size)
        os.truncate(newest, newest.stat().st_size - 1)
        life.broker.start()
        with pytest.raises(AssertionError):
            check(life.broker, life.loads)
