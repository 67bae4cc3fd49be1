"""A broker that is stopped or killed with kill -9 and comes back: its groups go on without intervention."""

from collections import Counter
from pathlib import Path

import pytest

from tests.support.broker.processes import BrokerProcess
from tests.support.groups.clients import CLIENTS
from tests.support.groups.crew import SETTINGS, Crew
from tests.support.groups.history import complaints

pytestmark = pytest.mark.slow

RECORDS_AT_A_TIME = 20_000


@pytest.mark.parametrize("client", CLIENTS)
def test_a_group_goes_on_when_its_broker_comes_back(tmp_path: Path, client: str) -> None:
    with (
        BrokerProcess(tmp_path / "data", SETTINGS) as broker,
        Crew(broker, client, "group") as crew,
    ):
        crew.join(2)
        crew.settle()
        for end in (broker.kill, broker.stop, broker.kill):
            before = crew.acknowledged()
            crew.feed(RECORDS_AT_A_TIME)
            # The members are busy at this moment.
            crew.wait_until(lambda before=before: crew.acknowledged() > before)
            acknowledged = crew.acknowledged()
            end()
            broker.start()
            kept = +Counter(crew.committed())
            assert kept >= acknowledged, "a commit is gone that was acknowledged before the restart"
            crew.settle()
        crew.leave(*crew.members)

        assert complaints(crew.histories(), crew.end_offsets) == []
        assert crew.committed() == crew.end_offsets
