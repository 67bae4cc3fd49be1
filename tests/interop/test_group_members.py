"""The Java client and franz-go in one group: members come, go, die and sleep, every record is processed, none twice in a
generation, and no partition has two owners. Checked from what the members themselves wrote down."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.faults.processes import BrokerProcess
from tests.groups.crew import SETTINGS
from tests.groups.history import Lost, complaints
from tests.interop.members import MixedCrew

pytestmark = pytest.mark.interop

RECORDS = 200_000
STAGES = 5

Programs = Mapping[str, Sequence[str]]


@pytest.fixture(scope="session")
def programs(java_command: Sequence[str], go_command: Sequence[str]) -> Programs:
    return {"java": java_command, "franz": go_command}


@pytest.mark.parametrize(
    "clients",
    [("java-cooperative", "franz-cooperative"), ("java-range", "franz-range"), ("java-consumer", "franz-consumer")],
    ids=["cooperative", "range", "consumer"],
)
def test_members_of_both_clients_come_and_go(programs: Programs, tmp_path: Path, clients: tuple[str, str]) -> None:
    java, franz = clients
    with (
        BrokerProcess(tmp_path / "data", SETTINGS) as broker,
        MixedCrew(broker.bootstrap_servers, "group", programs) as crew,
    ):

        def next_stage() -> None:
            # The records come while the members change.
            crew.feed(RECORDS // STAGES)
            crew.settle()

        sleepers = [*crew.join_as(java), *crew.join_as(franz)]
        next_stage()
        mortals = crew.join_as(franz, java)
        polite = crew.join_as(java, franz)
        next_stage()
        for mortal in mortals:
            mortal.kill()
        for sleeper in sleepers:
            sleeper.fall_asleep()
        next_stage()
        for sleeper in sleepers:
            sleeper.wake_up()
        next_stage()
        for sleeper in sleepers:
            assert any(isinstance(event, Lost) for event in sleeper.history), "it slept through its session"
        crew.leave(*polite)
        next_stage()
        crew.leave(*sleepers)

        assert complaints(crew.histories(), crew.end_offsets) == []
        assert crew.committed() == crew.end_offsets
        assert sum(crew.end_offsets.values()) == RECORDS
