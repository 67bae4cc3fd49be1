"""Orders from a queue and their invoices, settled and written in transactions, while the broker dies at the worst
moments: each order is done with once, and has exactly one invoice."""

import signal
import time
from pathlib import Path
from random import Random

import pytest

from tests.faults.settlements.launcher import BUGS, FAILPOINTS
from tests.faults.settlements.load import (
    DEADLINE_S,
    SETTINGS,
    History,
    check,
    prepare,
    wait_until_done,
    workers,
)
from tests.support.broker.processes import BrokerProcess

pytestmark = pytest.mark.slow

LAUNCHER = "tests.faults.settlements.launcher"
COUNT = 600
KILLS = 6


def test_a_broker_that_dies_at_a_failpoint_leaves_both_or_neither(tmp_path: Path) -> None:
    chance, history = Random(1), History()
    with BrokerProcess(tmp_path / "data", SETTINGS) as broker:
        prepare(broker, COUNT)
        with workers(broker, history):
            for name, failpoint in FAILPOINTS.items():
                if broker.is_running:
                    broker.kill()
                broker.launch((LAUNCHER, "die", name, str(chance.randint(1, failpoint.passages_max))))
                assert broker.wait(DEADLINE_S) == -signal.SIGKILL, f"it never came to {name}"
            broker.start()
            wait_until_done(broker)
        check(broker, history, COUNT)


def test_a_broker_that_is_killed_at_any_moment_leaves_both_or_neither(tmp_path: Path) -> None:
    history = History()
    with BrokerProcess(tmp_path / "data", SETTINGS) as broker:
        prepare(broker, COUNT)
        with workers(broker, history):
            for kill in range(1, KILLS + 1):
                deadline = time.monotonic() + DEADLINE_S
                while len(history.confirmed) < kill * COUNT // (KILLS + 2):
                    assert time.monotonic() < deadline, f"{len(history.confirmed)} of {COUNT} orders are done with"
                    time.sleep(0.01)
                broker.kill()
                broker.start()
            wait_until_done(broker)
        check(broker, history, COUNT)


@pytest.mark.parametrize("bug", BUGS)
def test_the_check_finds_a_planted_bug(tmp_path: Path, bug: str) -> None:
    history = History()
    with BrokerProcess(tmp_path / "data", SETTINGS) as broker:
        broker.stop()
        broker.start((LAUNCHER, "bug", bug))
        prepare(broker, 100)
        with workers(broker, history):
            wait_until_done(broker)
        with pytest.raises(AssertionError):
            check(broker, history, 100)
