"""Brokers that are killed at the worst moments keep what they acknowledged: once, in order and where it was."""

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
def test_a_broker_that_dies_at_its_work_keeps_its_promises(tmp_path: Path, work: str) -> None:
    """It is killed amid whatever it is doing, recovers from that, and kills itself at the failpoint."""
    chance = random.Random(work)
    with Life(tmp_path) as life:
        for name, failpoint in FAILPOINTS_BY_WORK[work].items():
            life.die_at(name, chance.randint(1, failpoint.passages_max))
            life.recover()


def test_the_long_form_comes_by_and_counts(tmp_path: Path) -> None:
    assert run(tmp_path, seed=1, kills_max=2) == Kills(lives=1, kills=2)


@pytest.mark.parametrize("partition", ["numbers-0", "compacted-0"])
def test_a_lost_batch_does_not_go_unnoticed(tmp_path: Path, partition: str) -> None:
    with Life(tmp_path) as life:
        life.loads.settle()
        life.broker.kill()
        newest = max(path for path in (tmp_path / "data" / partition).glob("*.log") if path.stat().st_size)
        os.truncate(newest, newest.stat().st_size - 1)
        life.broker.start()
        with pytest.raises(AssertionError):
            check(life.broker, life.loads)
