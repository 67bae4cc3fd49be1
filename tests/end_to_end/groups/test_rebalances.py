"""Groups whose members come, go, die and sleep: every record is processed, none twice in a generation, and no partition
has two owners. Checked against the events that the members recorded."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.broker.processes import BrokerProcess
from tests.support.groups.clients import CLIENTS
from tests.support.groups.crew import SETTINGS, Crew
from tests.support.groups.history import Lost, complaints

pytestmark = pytest.mark.slow

RECORDS = 20_000
STAGES = 8


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory: Path = tmp_path_factory.mktemp("broker")
    with BrokerProcess(directory / "data", SETTINGS) as broker:
        yield broker


@pytest.mark.parametrize("client", CLIENTS)
def test_members_come_and_go_and_every_record_is_processed(broker: BrokerProcess, client: str) -> None:
    def next_stage() -> None:
        # Records arrive while the membership changes.
        crew.feed(RECORDS // STAGES)
        crew.settle()

    with Crew(broker, client, f"{client}-{uuid4().hex[:8]}") as crew:
        for newcomers in (2, 3, 5):
            crew.join(newcomers)
            next_stage()
        first, second, third, sleeper, *rest = crew.members
        first.kill()
        second.kill()
        sleeper.fall_asleep()
        next_stage()
        sleeper.wake_up()
        next_stage()
        assert any(isinstance(event, Lost) for event in sleeper.history), "it slept through its session"
        crew.leave(third, rest[0])
        next_stage()
        crew.leave(*rest[1:-1])
        crew.join(1)
        next_stage()
        crew.leave(sleeper)
        next_stage()
        crew.leave(*(member for member in crew.members if member.is_active))

        assert complaints(crew.histories(), crew.end_offsets) == []
        assert crew.committed() == crew.end_offsets
        assert sum(crew.end_offsets.values()) == RECORDS
