"""A broker that is killed again and again keeps every promise, as far as all its clients can tell."""

from pathlib import Path

import pytest

from tests.faults.histories.cases import start, wait
from tests.faults.histories.load import SETTINGS, Load
from tests.support.broker.processes import BrokerProcess

pytestmark = pytest.mark.slow

ROLES = ("producer", "producer", "copier", "classic", "consumer", "fetcher", "zombie")
KILLS = 4


def test_a_broker_that_is_killed_under_load_breaks_no_promise(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", SETTINGS) as broker, Load(broker, tmp_path / "history") as load:
        start(load, ROLES)
        wait(load, ROLES)
        for _ in range(KILLS):
            broker.kill()
            broker.start()
            load.wait_for_more("send", 200)
            load.wait_for_more("end", 4)
            load.wait_for_more("commit", 20)
        found = load.finish()
        assert not found, "\n".join(map(str, found))
        assert broker.stop() == 0
