"""The Java client and franz-go in one group: members come, go, die and sleep, every record is processed, none twice in a
generation, and no partition has two owners. Checked from what the members themselves wrote down."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic  # pyright: ignore[reportPrivateImportUsage]

from tests.faults.processes import BrokerProcess
from tests.groups.crew import DEADLINE_S, SETTINGS
from tests.groups.history import Lost, complaints
from tests.interop.clients.group_admin import GroupAdmin
from tests.interop.clients.program import Program
from tests.interop.dump_log import DumpLog
from tests.interop.members import MixedCrew
from tests.interop.stored_groups import (
    CLASSIC_GROUP,
    CONSUMER_GROUP,
    CONSUMER_KINDS,
    CURRENT,
    MEMBER,
    OFFSET,
    REGEX,
    TARGET,
    StoredGroups,
)

pytestmark = pytest.mark.interop

GROUP = "group"
RECORDS = 200_000
STAGES = 5
RECORDS_OF_A_STAGE = RECORDS // STAGES

Programs = Mapping[str, Sequence[str]]


@pytest.fixture(scope="session")
def programs(java_command: Sequence[str], go_command: Sequence[str]) -> Programs:
    return {"java": java_command, "franz": go_command}


class Scene:
    """A crew on a broker of its own, and what is left of both in the end."""

    def __init__(self, data_directory: Path, programs: Programs, java_program: Program, dump_log: DumpLog) -> None:
        self._data_directory = data_directory
        self._programs = programs
        self._java_program = java_program
        self._dump_log = dump_log

    @contextmanager
    def play(self) -> Generator[tuple[MixedCrew, GroupAdmin]]:
        with (
            BrokerProcess(self._data_directory, SETTINGS) as broker,
            MixedCrew(broker.bootstrap_servers, GROUP, self._programs) as crew,
        ):
            yield crew, GroupAdmin(self._java_program, broker.bootstrap_servers)
            crew.leave(*(member for member in crew.members if member.is_active))
            assert complaints(crew.histories(), crew.end_offsets) == []
            assert crew.committed() == crew.end_offsets
            assert broker.stop() == 0
        assert self.stored().offsets() == crew.end_offsets

    def stored(self) -> StoredGroups:
        return StoredGroups(self._dump_log, self._data_directory)


@pytest.fixture
def scene(tmp_path: Path, programs: Programs, java_program: Program, dump_log: DumpLog) -> Scene:
    return Scene(tmp_path / "data", programs, java_program, dump_log)
