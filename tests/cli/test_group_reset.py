import os
from collections.abc import Mapping

import pytest

from headwater.cli.subcommands.group_reset import Step
from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.groups.admin import GroupAdmin
from headwater.client.groups.group_consumer import GroupConsumer
from headwater.client.groups.group_offsets import CommittedOffset
from headwater.client.producer import Producer
from headwater.errors import ErrorCode
from headwater.ids import TopicName, TopicPartition
from headwater.protocol.messages.groups.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from tests.support.cli.commands import Commands, Outcome, Terminal
from tests.support.client.scripted_group import GROUP, ScriptedGroup

NOON_MS = 1_748_779_200_000  # 2025-06-01T12:00:00Z


class Scene:
    """A topic with offsets 2 to 10 in each of three partitions, and a group that stands at 5 in the first two."""

    def __init__(self, commands: Commands, cluster: Cluster, topic: str) -> None:
        self.commands = commands
        self.cluster = cluster
        self.topic = topic
        self.group = f"{topic}.group"
        self.admin = GroupAdmin(cluster)

    def reset(self, *arguments: str) -> Outcome:
        return self.commands("group", "reset", self.group, *arguments)

    def offsets(self) -> Mapping[int, int]:
        committed = self.admin.committed(self.group)
        return {partition.partition: found.offset for partition, found in sorted(committed.items())}


@pytest.fixture
def scene(commands: Commands, cluster: Cluster, name: str) -> Scene:
    Admin(cluster).create_topic(name, partition_count=3)
    with Producer(cluster) as producer:
        for number in range(30):
            producer.send(name, b"v", partition=number % 3, timestamp_ms=NOON_MS + number // 3 * 1000)
    partitions = [TopicPartition(TopicName(name), index) for index in range(3)]
    Admin(cluster).delete_records(dict.fromkeys(partitions, 2))
    made = Scene(commands, cluster, name)
    made.admin.commit(made.group, dict.fromkeys(partitions[:2], CommittedOffset(5)))
    return made


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (("--to-earliest",), {0: 2, 1: 2, 2: 2}),
        (("--to-latest",), {0: 10, 1: 10, 2: 10}),
        (("--to-offset", "7"), {0: 7, 1: 7, 2: 7}),
        (("--to-time", "2025-06-01T12:00:04Z"), {0: 4, 1: 4, 2: 4}),
        (("--to-time", "9999-01-01"), {0: 10, 1: 10, 2: 10}),
        (("--by", "3"), {0: 8, 1: 8}),
        (("--by", "-2"), {0: 3, 1: 3}),
    ],
)
@pytest.mark.parametrize("which", ["--all-topics", "--topic"])
def test_offsets_move_to_the_chosen_position(
    scene: Scene, target: tuple[str, ...], which: str, expected: Mapping[int, int]
) -> None:
    outcome = scene.reset(*target, which, *([scene.topic] if which == "--topic" else []))
    assert outcome.code == 0, outcome.error
    assert scene.offsets() == expected
    assert outcome.error.splitlines()[-1] == f"reset {len(expected)} partitions of group {scene.group!r}"


def test_only_the_named_partitions_move(scene: Scene) -> None:
    assert scene.reset("--to-latest", "--topic", f"{scene.topic}:1,2").code == 0
    assert scene.offsets() == {0: 5, 1: 10, 2: 10}


def test_a_dry_run_shows_the_plan_and_changes_nothing(scene: Scene) -> None:
    outcome = scene.reset("--to-offset", "7", "--all-topics", "--dry-run")
    assert outcome.code == 0
    assert outcome.lines[0].split() == ["TOPIC", "PARTITION", "BEFORE", "AFTER", "SHIFT", "NOTE"]
    assert [line.split() for line in outcome.lines[1:]] == [
        [scene.topic, "0", "5", "7", "2", "-"],
        [scene.topic, "1", "5", "7", "2", "-"],
        [scene.topic, "2", "-", "7", "-", "-"],
    ]
    assert outcome.error == f"nothing was changed in group {scene.group!r}\n"
    assert scene.offsets() == {0: 5, 1: 5}


def test_an_offset_out_of_range_becomes_the_nearest_and_is_reported(scene: Scene) -> None:
    outcome = scene.reset("--by", "-100", "--topic", f"{scene.topic}:0", "--format", "json")
    (row,) = outcome.rows
    assert row == {
        "topic": scene.topic,
        "partition": 0,
        "before": 5,
        "after": 2,
        "shift": -3,
        "earliest": 2,
        "latest": 10,
        "note": "-95 is before the start",
    }
    assert "99 is behind the end" in scene.reset("--to-offset", "99", "--topic", f"{scene.topic}:1").lines[1]
    assert scene.offsets() == {0: 2, 1: 10}


def test_a_shift_skips_partitions_without_a_committed_offset(scene: Scene) -> None:
    outcome = scene.reset("--by", "1", "--all-topics")
    assert f"note: nothing is committed that could be shifted for {scene.topic}-2\n" in outcome.error
    none = scene.reset("--by", "1", "--topic", f"{scene.topic}:2")
    assert none.code == 1
    assert "--by needs some" in none.error


def test_resetting_a_group_with_members_is_refused_and_its_members_are_named(scene: Scene) -> None:
    with GroupConsumer(scene.cluster, scene.group, auto_commit_ms=None, wait_ms_max=1) as member:
        member.subscribe([scene.topic])
        member.poll()
        for dry in ([], ["--dry-run"]):
            outcome = scene.reset("--to-earliest", "--all-topics", *dry)
            assert (outcome.code, outcome.output) == (1, b"")
            assert outcome.error.startswith(
                f"error: group {scene.group!r} is active, so that its offsets cannot be reset; stop its members first: "
                f"{member.member_id} (client id headwater, host "
            )
    assert scene.offsets() == {0: 5, 1: 5}
    assert scene.reset("--to-earliest", "--all-topics").code == 0


@pytest.mark.parametrize(("answer", "code", "expected"), [(b"n\n", 130, 5), (b"y\n", 0, 10)])
def test_on_a_terminal_the_plan_is_shown_and_confirmed(scene: Scene, answer: bytes, code: int, expected: int) -> None:
    with Terminal() as terminal:
        os.write(terminal.person, answer)
        outcome = scene.commands(
            "group", "reset", scene.group, "--to-latest", "--topic", f"{scene.topic}:0", stdin=terminal.side
        )
    assert outcome.code == code
    assert outcome.lines[1].split() == [scene.topic, "0", "5", "10", "5", "-"]
    assert f"Reset the offsets of {scene.group!r} so?" in outcome.error
    assert scene.offsets() == {0: expected, 1: 5}


def test_the_yes_option_skips_the_confirmation(scene: Scene) -> None:
    with Terminal() as terminal:
        outcome = scene.commands(
            "group", "reset", scene.group, "--to-latest", "--all-topics", "--yes", stdin=terminal.side
        )
    assert (outcome.code, outcome.error) == (0, f"reset 3 partitions of group {scene.group!r}\n")


def test_offsets_can_be_set_before_the_first_member_joins(scene: Scene) -> None:
    new = f"{scene.group}.new"
    outcome = scene.commands.succeed("group", "reset", new, "--to-latest", "--topic", f"{scene.topic}:0")
    assert outcome.error == f"note: group {new!r} does not exist yet\nreset 1 partition of group {new!r}\n"
    assert list(scene.admin.committed(new).values()) == [CommittedOffset(10)]
    nothing = scene.commands("group", "reset", f"{new}er", "--to-latest", "--all-topics")
    assert nothing.code == 1
    assert "has committed no offsets; name topics with --topic" in nothing.error


def described(*members: DescribedGroupMember) -> DescribeGroupsResponse:
    group = DescribedGroup(group_id=GROUP, group_state="Stable" if members else "Empty", members=list(members))
    return DescribeGroupsResponse(groups=[group])


LATE = DescribedGroupMember(
    member_id="late", client_id="app", client_host="/10.0.0.1", member_metadata=b"", member_assignment=b""
)


@pytest.mark.parametrize(
    ("then", "error"),
    [
        (described(LATE), "stop its members first: late (client id app, host /10.0.0.1)"),
        (described(), "(UNKNOWN_MEMBER_ID)"),
    ],
)
def test_a_member_that_joins_after_the_plan_is_named(then: DescribeGroupsResponse, error: str) -> None:
    answers = [then, described()]
    with ScriptedGroup() as scripted:
        scripted.scripts[DescribeGroupsRequest] = lambda _: answers.pop()
        scripted.commit_codes = [ErrorCode.UNKNOWN_MEMBER_ID]
        outcome = Commands(scripted.bootstrap)("group", "reset", GROUP, "--to-latest", "--topic", "orders:0")
    assert outcome.code == 1
    assert outcome.error.endswith(f"{error}\n")
    assert scripted.committed == {}


def test_offsets_of_a_deleted_topic_stay_as_they_are() -> None:
    gone, orders = TopicPartition(TopicName("gone"), 0), TopicPartition(TopicName("orders"), 0)
    with ScriptedGroup({"orders": 1}) as scripted:
        scripted.scripts[DescribeGroupsRequest] = lambda _: described()
        scripted.committed = {gone: 4, orders: 8}
        outcome = Commands(scripted.bootstrap).succeed("group", "reset", GROUP, "--to-earliest", "--all-topics")
    assert outcome.error.splitlines()[0] == "note: topic 'gone' is gone, and its offsets stay as they are"
    assert scripted.committed == {gone: 4, orders: 0}


def test_a_missing_group_topic_or_partition_is_an_error_and_no_offset_moves(scene: Scene) -> None:
    missing = scene.reset("--to-latest", "--topic", scene.topic, "--topic", "nosuch")
    assert (missing.code, missing.error) == (1, "error: topic 'nosuch' does not exist\n")
    beyond = scene.reset("--to-latest", "--topic", f"{scene.topic}:0,3")
    assert (beyond.code, beyond.error) == (1, f"error: topic {scene.topic!r} has partitions 0 to 2, not 3\n")
    assert scene.offsets() == {0: 5, 1: 5}


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("--all-topics",), "where to?"),
        (("--to-earliest", "--to-latest", "--all-topics"), "where to?"),
        (("--to-offset", "0", "--by", "0", "--all-topics"), "where to?"),
        (("--to-earliest",), "which partitions?"),
        (("--to-earliest", "--topic", "t", "--all-topics"), "which partitions?"),
        (("--to-earliest", "--topic", ":0"), "names no topic"),
        (("--to-earliest", "--topic", "t:"), "orders:0,2"),
        (("--to-earliest", "--topic", "t:0,x"), "orders:0,2"),
        (("--to-earliest", "--topic", "t:99999999999"), "orders:0,2"),
        (("--to-offset", "-1", "--all-topics"), "--to-offset"),
        (("--to-time", "soon", "--all-topics"), "ISO 8601"),
        (("--to-earliest", "--all-topics", "--dry-run", "--yes"), "--dry-run changes nothing"),
    ],
)
def test_wrong_usage_has_exit_code_2_and_a_hint(commands: Commands, arguments: tuple[str, ...], hint: str) -> None:
    outcome = commands("group", "reset", "g", *arguments)
    assert outcome.code == 2
    assert hint in outcome.error


def test_an_empty_partition_has_only_one_valid_offset() -> None:
    step = Step(TopicPartition(TopicName("t"), 0), None, 3, 7, 7)
    assert (step.after, step.note) == (7, "3 is before the start")
