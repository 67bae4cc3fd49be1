import json
import os
from collections.abc import Iterator

import pytest
import yaml

from headwater.cli.rows.group_rows import abbreviated, lag, member_names
from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.groups.admin import GroupAdmin, MemberDescription
from headwater.client.groups.group_consumer import GroupConsumer
from headwater.client.groups.group_offsets import CommittedOffset
from headwater.client.producer import Producer
from headwater.errors import ErrorCode
from headwater.ids import MemberId, TopicName, TopicPartition
from headwater.protocol.messages.groups.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from tests.support.cli.commands import Commands, Terminal
from tests.support.client.scripted_group import GROUP, ScriptedGroup


@pytest.fixture
def topic(cluster: Cluster, name: str) -> str:
    """A topic with ten values in each of two partitions."""
    Admin(cluster).create_topic(name, partition_count=2)
    with Producer(cluster) as producer:
        for number in range(20):
            producer.send(name, b"v%d" % number, partition=number % 2)
    return name


@pytest.fixture
def group(cluster: Cluster, topic: str) -> str:
    """A group without members that has committed offset 3 of the first partition."""
    partition = TopicPartition(TopicName(topic), 0)
    GroupAdmin(cluster).commit(f"{topic}.group", {partition: CommittedOffset(3, 0, "note")})
    return f"{topic}.group"


@pytest.fixture
def member(cluster: Cluster, topic: str, group: str) -> Iterator[GroupConsumer]:
    """A member that has both partitions, and has read none of their records."""
    with GroupConsumer(cluster, group, auto_commit_ms=None, wait_ms_max=1) as consumer:
        consumer.subscribe([topic])
        while len(consumer.positions) < 2:
            consumer.poll()
        yield consumer


def test_groups_are_listed_and_filtered(commands: Commands, group: str, member: GroupConsumer) -> None:
    def listed(*options: str) -> list[list[str]]:
        lines = commands.succeed("group", "list", *options).lines
        assert lines[0].split() == ["GROUP", "TYPE", "STATE", "PROTOCOL"]
        return [line.split() for line in lines if line.split()[0] == group]

    assert listed() == [[group, "consumer", "Stable", "consumer"]]
    assert listed("--state", "stable", "--type", "Consumer") == listed()
    assert listed("--state", "Empty") == []
    assert listed("--type", "classic") == []
    rows = commands.succeed("group", "list", "--format", "json").rows
    assert {"group": group, "type": "consumer", "state": "Stable", "protocol": "consumer"} in rows
    assert member.positions


def test_describe_shows_the_group_and_its_lag(
    commands: Commands, topic: str, group: str, member: GroupConsumer
) -> None:
    shown = commands.succeed("group", "describe", group)
    words = shown.lines[0].split("  ")
    assert words[:4] == [f"group {group}", "type consumer", "state Stable", "protocol consumer"]
    assert words[4] == "assignor uniform"
    assert words[5].startswith("epoch ")
    assert words[6] == f"coordinator 1 at {commands.bootstrap}"
    assert words[7:] == ["members 1", "lag 7"]
    assert shown.lines[2].split() == ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER", "CLIENT_ID", "HOST"]
    first, second = (line.split() for line in shown.lines[3:])
    assert first[:7] == [topic, "0", "3", "10", "7", member.member_id, "headwater"]
    assert second[:7] == [topic, "1", "-", "10", "-", member.member_id, "headwater"]


def test_describe_as_json_has_every_field(commands: Commands, topic: str, group: str) -> None:
    (row,) = yaml.safe_load(commands.succeed("group", "describe", group, "--format", "yaml").output)
    assert (row["group"], row["state"], row["members"], row["lag"]) == (group, "Empty", 0, 7)
    assert row["coordinator_address"] == commands.bootstrap
    assert row["partitions"] == [
        {
            "topic": topic,
            "partition": 0,
            "committed": 3,
            "end": 10,
            "lag": 7,
            "member": None,
            "client_id": None,
            "host": None,
        }
    ]


def test_a_group_without_members_and_offsets_can_be_described(
    commands: Commands, cluster: Cluster, topic: str, group: str
) -> None:
    GroupAdmin(cluster).delete_group(group)
    with GroupConsumer(cluster, group, wait_ms_max=1) as consumer:
        consumer.subscribe([f"{topic}.nosuch"])
        consumer.poll()
        shown = commands.succeed("group", "describe", group)
        none = commands.succeed("group", "offsets", group)
    assert shown.lines[-1] == "no partition is assigned, and no offset is committed"
    assert none.lines == [f"group {group!r} has committed no offsets"]


def test_a_committed_offset_beyond_the_end_is_no_lag(
    commands: Commands, cluster: Cluster, topic: str, group: str, member: GroupConsumer
) -> None:
    other = TopicPartition(TopicName(f"{topic}.other"), 0)
    Admin(cluster).create_topic(other.topic, partition_count=1)
    member.commit({other: 5})
    shown = commands.succeed("group", "offsets", group, "--format", "json").rows
    assert [(row["topic"], row["committed"], row["end"]) for row in shown] == [(topic, 3, 10), (other.topic, 5, 0)]
    assert shown[1]["lag"] == 0


def test_offsets_of_a_topic_that_is_gone_are_shown_without_an_end() -> None:
    with ScriptedGroup() as scripted:
        scripted.committed = {TopicPartition(TopicName("gone"), 0): 4, TopicPartition(TopicName("orders"), 1): 8}
        rows = Commands(scripted.bootstrap).succeed("group", "offsets", GROUP, "--format", "json").rows
    assert [(row["topic"], row["committed"], row["end"], row["lag"]) for row in rows] == [
        ("gone", 4, None, None),
        ("orders", 8, 10, 2),
    ]


def test_an_unexpected_refusal_to_delete_is_reported_unchanged() -> None:
    refusal = DeletableGroupResult(group_id=GROUP, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    with ScriptedGroup() as scripted:
        scripted.scripts[DeleteGroupsRequest] = lambda _: DeleteGroupsResponse(results=[refusal])
        outcome = Commands(scripted.bootstrap)("group", "delete", GROUP)
    assert (outcome.code, outcome.error) == (1, "error: group 'readers': GROUP_AUTHORIZATION_FAILED\n")


def test_members_are_shown_with_their_partitions(
    commands: Commands, topic: str, group: str, member: GroupConsumer
) -> None:
    header, line = commands.succeed("group", "members", group).lines
    assert header.split()[:4] == ["MEMBER", "INSTANCE_ID", "CLIENT_ID", "HOST"]
    words = line.split()
    assert words[:3] == [member.member_id, "-", "headwater"]
    assert words[4] == "consumer"
    assert words[6:] == [f"{topic}[0-1]", f"{topic}[0-1]"]
    (row,) = commands.succeed("group", "members", group, "--format", "json").rows
    assert (row["topics"], row["topic_regex"]) == ([topic], None)
    assert row["assigned"] == row["target"] == {topic: [0, 1]}


def test_a_group_without_members_is_shown_as_empty(commands: Commands, group: str) -> None:
    assert commands.succeed("group", "members", group).lines == [f"group {group!r} has no members"]
    assert commands.succeed("group", "members", group, "--format", "json").rows == []


def test_offsets_are_shown_with_their_metadata(commands: Commands, topic: str, group: str) -> None:
    header, line = commands.succeed("group", "offsets", group).lines
    assert header.split() == ["TOPIC", "PARTITION", "COMMITTED", "LEADER_EPOCH", "METADATA", "END", "LAG"]
    assert line.split() == [topic, "0", "3", "0", "note", "10", "7"]


def test_groups_are_deleted_and_those_deleted_before_a_refusal_are_listed(commands: Commands, group: str) -> None:
    outcome = commands("group", "delete", group, "nosuch", "--format", "json")
    assert (outcome.code, outcome.error) == (1, "error: group 'nosuch' does not exist\n")
    assert outcome.rows == [{"group": group, "deleted": True}]
    passed = commands.succeed("group", "delete", group, "--if-exists")
    assert passed.lines[1].split() == [group, "false"]


def test_a_group_with_members_is_not_deleted_and_its_members_are_named(
    commands: Commands, group: str, member: GroupConsumer
) -> None:
    outcome = commands("group", "delete", group)
    assert (outcome.code, outcome.output) == (1, b"")
    assert outcome.error.startswith(
        f"error: group {group!r} is active and cannot be deleted; stop its members first: "
        f"{member.member_id} (client id headwater, host "
    )
    assert len(outcome.error.splitlines()) == 1


@pytest.mark.parametrize(("answer", "code"), [(b"n\n", 130), (b"y\n", 0)])
def test_deleting_groups_asks_for_confirmation_on_a_terminal(
    commands: Commands, group: str, answer: bytes, code: int
) -> None:
    with Terminal() as terminal:
        os.write(terminal.person, answer)
        outcome = commands("group", "delete", group, stdin=terminal.side)
    assert outcome.code == code
    assert f"Delete {group!r} and all committed offsets?" in outcome.output.decode()
    assert commands("group", "describe", group).code == (1 if code == 0 else 0)


@pytest.mark.parametrize("command", ["describe", "members", "offsets", "delete"])
def test_a_group_that_does_not_exist_is_one_line_and_exit_code_1(commands: Commands, command: str) -> None:
    outcome = commands("group", command, "nosuch")
    assert (outcome.code, outcome.error) == (1, "error: group 'nosuch' does not exist\n")


@pytest.mark.parametrize(
    "arguments",
    [("describe",), ("members",), ("offsets",), ("delete",), ("list", "--state", "Sleepy"), ("list", "--type", "x")],
)
def test_wrong_usage_has_exit_code_2(commands: Commands, arguments: tuple[str, ...]) -> None:
    outcome = commands("group", *arguments)
    assert outcome.code == 2
    assert "Usage: headwater group" in outcome.error


@pytest.mark.parametrize("command", ["list", "describe", "members", "offsets", "reset", "delete"])
def test_help_has_examples_that_can_be_run(commands: Commands, command: str) -> None:
    shown = commands.succeed("group", command, "--help").output.decode()
    assert "Examples:" in shown
    assert f"headwater group {command}" in shown


def test_an_unknown_offset_has_no_lag() -> None:
    assert (lag(None, 5), lag(5, None), lag(3, 5), lag(5, 3)) == (None, None, 2, 0)


def test_partition_lists_are_abbreviated_to_ranges() -> None:
    assert abbreviated({"a": [7, 0, 1, 2], "b": [4]}) == ["a[0-2,7]", "b[4]"]


def test_a_message_names_members_escaped_and_only_the_first_of_many() -> None:
    def described(number: int) -> MemberDescription:
        return MemberDescription(MemberId(f"m{number}"), None, "evil\x1b[31m\n", "/h", "consumer", 1, (), None, (), ())

    text = member_names([described(number) for number in range(12)])
    assert text.startswith(r"m0 (client id evil\x1b[31m\n, host /h), m1 ")
    assert text.endswith(", and 2 more")
    assert json.dumps(text).isascii()
