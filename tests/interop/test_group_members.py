"""The Java client and franz-go in one group, whose members come, go, die and sleep: every record is processed, none
twice in a generation, and no partition has two owners. Checked from what the members themselves wrote down; and Kafka's
own tool reads what the broker leaves."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.interop.clients.group_admin import GroupAdmin
from tests.interop.clients.program import Program
from tests.interop.dump_log import DumpLog
from tests.interop.members import MixedCrew
from tests.interop.stored_groups import (
    CLASSIC_GROUP,
    CONSUMER_GROUP,
    CONSUMER_KINDS,
    MEMBER,
    OFFSET,
    REGEX,
    StoredGroups,
)
from tests.support.broker.processes import BrokerProcess
from tests.support.groups.crew import SETTINGS
from tests.support.groups.history import Lost, complaints
from tests.support.kafka.raw_client import RawClient

pytestmark = pytest.mark.interop

RECORDS = 200_000
STAGES = 5


@pytest.fixture
def data_directory(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def broker(data_directory: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(data_directory, SETTINGS) as broker:
        yield broker


@pytest.fixture
def crew(broker: BrokerProcess, java_command: Sequence[str], go_command: Sequence[str]) -> Iterator[MixedCrew]:
    with MixedCrew(broker, "group", {"java": [*java_command, "member"], "franz": go_command}) as crew:
        yield crew


@pytest.fixture
def admin(broker: BrokerProcess, java_program: Program) -> GroupAdmin:
    return GroupAdmin(java_program, broker.bootstrap_servers)


def next_stage(crew: MixedCrew) -> None:
    # The records come while the members change.
    crew.feed(RECORDS // STAGES)
    crew.settle()


def end(crew: MixedCrew, broker: BrokerProcess, dump_log: DumpLog, data_directory: Path) -> StoredGroups:
    """Everyone leaves, and all that they wrote down is looked at; then what the broker wrote."""
    crew.leave(*(member for member in crew.members if member.is_active))
    assert complaints(crew.histories(), crew.end_offsets) == []
    assert crew.committed() == crew.end_offsets
    assert broker.stop() == 0
    stored = StoredGroups(dump_log, data_directory)
    assert stored.offsets() == crew.end_offsets
    return stored


@pytest.mark.parametrize(
    ("java", "franz"),
    [("java-cooperative", "franz-cooperative"), ("java-range", "franz-range"), ("java-consumer", "franz-consumer")],
)
def test_members_of_both_clients_come_and_go(
    crew: MixedCrew, broker: BrokerProcess, dump_log: DumpLog, data_directory: Path, java: str, franz: str
) -> None:
    sleepers = crew.join_as(java, franz)
    next_stage(crew)
    mortals = crew.join_as(franz, java)
    polite = crew.join_as(java, franz)
    next_stage(crew)
    for mortal in mortals:
        mortal.kill()
    for sleeper in sleepers:
        sleeper.fall_asleep()
    next_stage(crew)
    for sleeper in sleepers:
        sleeper.wake_up()
    next_stage(crew)
    for sleeper in sleepers:
        assert any(isinstance(event, Lost) for event in sleeper.history), "it slept through its session"
    crew.leave(*polite)
    next_stage(crew)

    stored = end(crew, broker, dump_log, data_directory)
    assert sum(crew.end_offsets.values()) == RECORDS
    if java == "java-consumer":
        assert stored.kinds == CONSUMER_KINDS | {OFFSET}
        members = stored.of(MEMBER)
        assert not any(member.value.get("classicMemberMetadata") for member in members if member.value)
        assert set(stored.latest(MEMBER).values()) == {None}
    else:
        assert stored.kinds == {CLASSIC_GROUP, OFFSET}
        (group,) = stored.latest(CLASSIC_GROUP).values()
        assert group is not None
        assert (group["protocolType"], group["members"]) == ("consumer", [])


def test_patterns_are_resolved_by_the_broker(
    crew: MixedCrew, admin: GroupAdmin, broker: BrokerProcess, dump_log: DumpLog, data_directory: Path
) -> None:
    def assigned_topics() -> set[str]:
        members = admin.describe(crew.group)[crew.group]["members"]
        return {partition.rpartition("-")[0] for member in members for partition in member["partitions"]}

    crew.join_as("java-regex", "franz-regex", "franz-consumer")
    next_stage(crew)
    assert assigned_topics() == {crew.topic}
    late = f"{crew.topic}-that-came-late"
    with RawClient(broker) as raw:
        raw.create(late)
    crew.wait_until(lambda: assigned_topics() == {crew.topic, late})
    next_stage(crew)

    stored = end(crew, broker, dump_log, data_directory)
    assert stored.kinds == CONSUMER_KINDS | {OFFSET, REGEX}
    resolved = [record.value["topics"] for record in stored.of(REGEX) if record.value]
    assert resolved[0] == [crew.topic]
    assert sorted(resolved[-1]) == [crew.topic, late]


@pytest.mark.parametrize("assignor", ["cooperative", "range"])
def test_a_group_moves_to_the_new_protocol_and_back_while_it_works(
    crew: MixedCrew, admin: GroupAdmin, broker: BrokerProcess, dump_log: DumpLog, data_directory: Path, assignor: str
) -> None:
    def kind() -> str:
        return admin.list()[crew.group][1]

    classic = crew.join_as(f"java-{assignor}", f"franz-{assignor}")
    next_stage(crew)
    assert kind() == "Classic"
    modern = crew.join_as("java-consumer", "franz-consumer")
    next_stage(crew)
    assert kind() == "Consumer"
    crew.leave(*classic)
    next_stage(crew)
    crew.join_as(f"franz-{assignor}", f"java-{assignor}")
    next_stage(crew)
    assert kind() == "Consumer"
    crew.leave(*modern)
    next_stage(crew)
    assert kind() == "Classic"

    stored = end(crew, broker, dump_log, data_directory)
    assert stored.kinds == CONSUMER_KINDS | {OFFSET, CLASSIC_GROUP}
    assert set(stored.latest(CONSUMER_GROUP).values()) == {None}
