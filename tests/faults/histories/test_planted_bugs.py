"""The checks can fail: each finds the planted bug that breaks its promise, from the history of the clients alone."""

from pathlib import Path

import pytest

from tests.faults.histories.cases import FaultyBroker, start, wait
from tests.faults.histories.load import Load, NotInTime
from tests.faults.histories.planted import BUGS

pytestmark = pytest.mark.slow

# A broker with a bug may keep its clients from making progress, so waits are short.
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
            # A client without progress proves nothing.
            pass
        found = load.finish(LIMIT_S)
    assert bug.invariant in {violation.invariant for violation in found}, found
