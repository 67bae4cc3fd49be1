"""The checks can fail: each finds the bug that breaks what it promises, in what clients saw of a broker that has it."""

from pathlib import Path

import pytest

from tests.faults.histories.cases import FaultyBroker, start, wait
from tests.faults.histories.load import Load, NotInTime
from tests.faults.histories.planted import BUGS

pytestmark = pytest.mark.slow

# A broker that breaks a promise may well keep its clients from getting anywhere; nobody waits for them for long.
WAIT_S = 20.0
LIMIT_S = 3.0


@pytest.mark.parametrize("name", BUGS)
def test_a_broker_that_breaks_a_promise_is_found_out(tmp_path: Path, name: str) -> None:
    bug = BUGS[name]
    with FaultyBroker(tmp_path / "data", name) as broker, Load(broker, tmp_path / "history", limit_s=WAIT_S) as load:
        try:
            start(load, bug.roles, source_partitions=1)
            wait(load, bug.roles)
            if bug.invariant == "I16":
                broker.kill()
                broker.start()
        except NotInTime:
            # Which is no proof of anything.
            pass
        found = load.finish(LIMIT_S)
    assert bug.invariant in {violation.invariant for violation in found}, found
