"""A broker that goes away under its groups, politely or by kill -9, and comes back: nobody has to do anything."""

import time
from pathlib import Path

import pytest

from tests.faults.processes import BrokerProcess
from tests.groups.clients import CLIENTS
from tests.groups.crew import SETTINGS, Crew
from tests.groups.history import Committed, complaints

RECORDS_AT_A_TIME = 20_000


def acknowledged(crew: Crew, before_ns: int) -> dict[int, int]:
    """The last commit of each partition that a member had the answer to by then."""
    commits = sorted(
        (event.at_ns, partition, offset)
        for history in crew.histories().values()
        for event in history
        if isinstance(event, Committed) and event.at_ns < before_ns
        for partition, offset in event.offsets
    )
    return {partition: offset for _, partition, offset in commits}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_group_goes_on_when_its_broker_comes_back(tmp_path: Path, client: str) -> None:
    with (
        BrokerProcess(tmp_path / "data", SETTINGS) as broker,
        Crew(broker, client, "group") as crew,
    ):
        crew.join(2)
        crew.settle()
        for end in (broker.kill, broker.stop, broker.kill):
            before = acknowledged(crew, time.monotonic_ns())
            crew.feed(RECORDS_AT_A_TIME)
            # In the midst of their work.
            crew.wait_until(lambda before=before: acknowledged(crew, time.monotonic_ns()) != before)
            end()
            ended_ns = time.monotonic_ns()
            broker.start()
            kept, acked = crew.committed(), acknowledged(crew, ended_ns)
            lost = {index: offset for index, offset in acked.items() if kept[index] < offset}
            assert not lost, f"acknowledged, and gone after the restart; there is {kept}"
            crew.settle()
        crew.leave(*crew.members)

        assert complaints(crew.histories(), crew.end_offsets) == []
        assert crew.committed() == crew.end_offsets
