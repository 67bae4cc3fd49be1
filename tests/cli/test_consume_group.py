"""`headwater consume --group`: printed records are committed, and the member leaves the group however it ends."""

import io
import signal

import pytest

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.groups.admin import GroupAdmin
from headwater.client.groups.group_consumer import GroupConsumer
from headwater.client.producer import Producer
from tests.support.cli.commands import Commands


@pytest.fixture
def topic(cluster: Cluster, name: str) -> str:
    """A topic with ten values in each of two partitions."""
    Admin(cluster).create_topic(name, partition_count=2)
    with Producer(cluster) as producer:
        for number in range(20):
            producer.send(name, b"v%d" % number, partition=number % 2)
    return name


def committed(cluster: Cluster, group: str) -> int:
    return sum(found.offset for found in GroupAdmin(cluster).committed(group).values())


def member_count(cluster: Cluster, group: str) -> int:
    return len(GroupAdmin(cluster).describe_group(group).members)


def test_a_group_resumes_where_it_stopped(commands: Commands, cluster: Cluster, topic: str) -> None:
    first = commands.succeed("consume", topic, "--group", topic)
    assert sorted(first.lines) == sorted(f"v{number}" for number in range(20))
    assert (committed(cluster, topic), member_count(cluster, topic)) == (20, 0)
    assert commands.succeed("consume", topic, "--group", topic, "--from-beginning").output == b""
    with Producer(cluster) as producer:
        producer.send(topic, b"new")
    assert commands.succeed("consume", topic, "--group", topic).lines == ["new"]


def test_only_printed_records_are_committed(commands: Commands, cluster: Cluster, topic: str) -> None:
    first = commands.succeed("consume", topic, "--group", topic, "--max", "7")
    assert (len(first.lines), committed(cluster, topic)) == (7, 7)
    rest = commands.succeed("consume", topic, "--group", topic)
    assert sorted(first.lines + rest.lines) == sorted(f"v{number}" for number in range(20))
    assert commands.succeed("consume", topic, "--group", f"{topic}.other", "--max", "0").output == b""


def test_a_group_can_begin_at_the_end(commands: Commands, cluster: Cluster, topic: str) -> None:
    assert commands.succeed("consume", topic, "--group", topic, "--from", "end").output == b""
    assert committed(cluster, topic) == 20
    assert commands.succeed("consume", topic, "--group", topic).output == b""


def test_several_topics_are_read_and_named(commands: Commands, cluster: Cluster, topic: str) -> None:
    Admin(cluster).create_topic(f"{topic}.b", partition_count=1)
    commands.succeed("produce", f"{topic}.b", "other")
    shown = commands.succeed("consume", topic, f"{topic}.b", "--group", topic, "--format", "table")
    assert shown.lines[0].split()[:3] == ["TOPIC", "PARTITION", "OFFSET"]
    assert len(shown.lines) == 22
    assert [line.split()[-1] for line in shown.lines if line.startswith(f"{topic}.b ")] == ["other"]
    alone = commands.succeed("consume", topic, f"{topic}.b", "--format", "json").rows
    assert {row["topic"] for row in alone} == {topic, f"{topic}.b"}


class Interrupting(io.BytesIO):
    """An output that gets a signal with some writes: the text is written, but the command has not counted it yet."""

    def __init__(self, number: signal.Signals, *writes: int) -> None:
        super().__init__()
        self.number = number
        self.writes = writes
        self.count = 0

    def write(self, data: object) -> int:
        size = super().write(data)  # pyright: ignore[reportArgumentType]
        self.count += 1
        if self.count in self.writes:
            signal.raise_signal(self.number)
        return size


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(("follow", "code"), [(["--follow"], 0), ([], 130)])
def test_an_interruption_commits_exactly_the_printed_records_and_leaves(
    commands: Commands, cluster: Cluster, topic: str, number: signal.Signals, follow: list[str], code: int
) -> None:
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    output = Interrupting(number, 4)
    outcome = commands("consume", topic, "--group", topic, *follow, stdout=output)
    assert (outcome.code, len(output.getvalue().splitlines())) == (code, 4)
    assert (committed(cluster, topic), member_count(cluster, topic)) == (4, 0)
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == handlers


class Stuck(Interrupting):
    """An output that takes one record, then gets two signals within a single write, as if its reader were stuck."""

    def write(self, data: object) -> int:
        if self.count:
            signal.raise_signal(self.number)
            signal.raise_signal(self.number)
        return super().write(data)


def test_a_second_interruption_does_not_wait_for_the_output(commands: Commands, cluster: Cluster, topic: str) -> None:
    assert commands("consume", topic, "--group", topic, stdout=Stuck(signal.SIGINT)).code == 130
    assert (committed(cluster, topic), member_count(cluster, topic)) == (0, 0), "what is in doubt comes again"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_following_ends_cleanly_with_a_signal(
    commands: Commands, cluster: Cluster, topic: str, number: signal.Signals
) -> None:
    process = commands.start("consume", topic, "--group", topic, "--follow")
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(20)]
    assert sorted(lines) == sorted(b"v%d\n" % number for number in range(20))
    with Producer(cluster) as producer:
        producer.send(topic, b"new")
    assert process.stdout.readline() == b"new\n"
    process.send_signal(number)
    rest, error = process.communicate(timeout=30)
    assert (process.returncode, rest, error) == (0, b"", b"")
    assert (committed(cluster, topic), member_count(cluster, topic)) == (21, 0)


def test_a_closed_pipe_ends_the_command_and_the_member_leaves(commands: Commands, cluster: Cluster, topic: str) -> None:
    process = commands.start("consume", topic, "--group", topic, "--follow")
    assert process.stdout is not None
    assert process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr as error:
        assert error.read() == b""
    assert process.wait(timeout=30) == 0
    assert process.stdin is not None
    process.stdin.close()
    assert member_count(cluster, topic) == 0


def test_waiting_for_partitions_is_reported(commands: Commands, cluster: Cluster, topic: str) -> None:
    with GroupConsumer(cluster, topic, wait_ms_max=1) as other:
        other.subscribe([topic])
        while len(other.positions) < 2:
            other.poll()
        process = commands.start("consume", topic, "--group", topic)
        assert process.stderr is not None
        note = process.stderr.readline().decode()
        assert note == f"note: waiting for partitions, other members of group {topic!r} have them\n"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        assert process.returncode == 130
        assert member_count(cluster, topic) == 1


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("--group", "g", "--partition", "0"), "--partition has no meaning with --group"),
        (("--group", "g", "--from", "5"), "headwater group reset"),
        (("--group", ""), "--group needs a name"),
        (("--from-beginning", "--from", "end"), "--from-beginning contradicts --from"),
    ],
)
def test_wrong_usage_has_exit_code_2_and_a_hint(commands: Commands, arguments: tuple[str, ...], hint: str) -> None:
    outcome = commands("consume", "t", *arguments)
    assert outcome.code == 2
    assert hint in outcome.error


def test_a_missing_topic_is_reported_before_joining_the_group(commands: Commands, name: str) -> None:
    outcome = commands("consume", "nosuch", "--group", name)
    assert (outcome.code, outcome.error) == (1, "error: topic 'nosuch' does not exist\n")
    assert commands("group", "describe", name).code == 1
