"""A group whose members are replaced, one by one and under load, by members of the other protocol, and back."""

from pathlib import Path

import pytest

from tests.support.broker.processes import BrokerProcess
from tests.support.groups.crew import SETTINGS, Crew
from tests.support.groups.history import complaints

pytestmark = pytest.mark.slow

MEMBERS = 3
RECORDS_AT_A_TIME = 5_000


@pytest.mark.parametrize("classic", ["confluent-cooperative", "aiokafka"])
def test_a_group_changes_its_protocol_and_back_without_a_pause(tmp_path: Path, classic: str) -> None:
    with (
        BrokerProcess(tmp_path / "data", SETTINGS) as broker,
        Crew(broker, classic, "group") as crew,
    ):
        crew.join(MEMBERS)
        crew.feed(RECORDS_AT_A_TIME)
        crew.settle()
        for client in ("confluent-consumer", classic):
            for _ in range(MEMBERS):
                oldest = next(member for member in crew.members if member.is_active)
                crew.join(1, client)
                crew.feed(RECORDS_AT_A_TIME)
                crew.settle()
                crew.leave(oldest)
                crew.feed(RECORDS_AT_A_TIME)
                crew.settle()
        crew.leave(*(member for member in crew.members if member.is_active))

        assert complaints(crew.histories(), crew.end_offsets) == []
        assert crew.committed() == crew.end_offsets
