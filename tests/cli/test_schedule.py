import pytest
import yaml

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.consumer import Consumer
from headwater.client.schedule import Place, Schedule, ScheduleId, pending
from headwater.ids import TopicName, TopicPartition
from headwater.protocol.batches.records import Headers
from tests.support.cli.commands import Commands

FAR = "2000000000000ms"


@pytest.fixture
def topic(cluster: Cluster, name: str) -> str:
    Admin(cluster).create_topic(
        name, partition_count=2, settings={"headwater.delay.enable": "true", "headwater.delay.max.ms": str(2**50)}
    )
    return name


def read(cluster: Cluster, topic: str, offset: int = 0) -> list[tuple[bytes | None, Headers]]:
    consumer = Consumer(cluster, {TopicPartition(TopicName(topic), 0): offset})
    while not (found := consumer.poll()):
        pass
    return [(record.value, record.headers) for record in found]


def test_a_record_is_scheduled_listed_and_cancelled(commands: Commands, cluster: Cluster, topic: str) -> None:
    commands.succeed("produce", topic, "tea", "--partition", "0", "--delay", "1h", "--schedule-id", "tea time")
    commands.succeed("produce", topic, "cake", "--partition", "1", "--deliver-at", FAR)

    count = commands.succeed("schedule", "count", topic, "--format", "json").rows
    assert [(row["partition"], row["records"]) for row in count] == [(0, 1), (1, 1)]
    tea, cake = commands.succeed("schedule", "list", topic, "--format", "json").rows
    assert (tea["schedule_id"], cake["due"]) == ("tea time", "2033-05-18T03:33:20.000Z")
    (line,) = commands.succeed("schedule", "list", topic, "--max", "1").lines[1:]
    assert line.startswith(tea["place"])
    (shown,) = yaml.safe_load(commands.succeed("schedule", "show", topic, cake["place"], "--format", "yaml").output)
    assert (shown["value"], shown["headers"][0]["name"]) == ("cake", "headwater-deliver-at")

    assert commands.succeed("schedule", "cancel", topic, "--schedule-id", "tea time").lines[1:] == [
        "tea time  1        -"
    ]
    missing = commands("schedule", "cancel", topic, cake["place"], tea["place"])
    assert missing.code == 1
    assert "1 of 2 could not be changed" in missing.error
    assert pending(cluster, [topic]) == []


def test_records_are_moved_and_delivered(commands: Commands, cluster: Cluster, topic: str) -> None:
    commands.succeed("produce", topic, "tea", "--partition", "0", "--delay", "1h", "--schedule-id", "x")
    commands.succeed("schedule", "move", topic, "--schedule-id", "x", "--to", FAR)
    (moved,) = Schedule(cluster, topic).records()
    assert moved.due_ms == 2_000_000_000_000
    commands.succeed("schedule", "move", topic, str(moved.place), "--delay", "2h")
    (again,) = Schedule(cluster, topic).find(ScheduleId("x"))
    assert again.due_ms < moved.due_ms
    commands.succeed("schedule", "deliver", topic, str(moved.place))

    ((value, headers),) = read(cluster, topic, 1)
    assert value == b"tea"
    assert dict(headers)["headwater-schedule-id"] == b"x"


def test_options_of_produce_become_headers(commands: Commands, cluster: Cluster, topic: str) -> None:
    commands.succeed("produce", topic, "now", "--partition", "0", "--priority", "high", "--ttl", "1h", "--delay", "0s")
    ((_, headers),) = read(cluster, topic)
    assert headers == (
        ("headwater-delay-ms", b"0"),
        ("headwater-priority", b"1"),
        ("headwater-ttl-ms", b"3600000"),
    )


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("produce", "t", "v", "--delay", "1s", "--deliver-at", FAR), "exclude each other"),
        (("produce", "t", "v", "--schedule-id", "x"), "needs --delay or --deliver-at"),
        (("produce", "t", "v", "--priority", "urgent"), "'urgent' is not one of"),
        (("schedule", "cancel", "t"), "name records by their places"),
        (("schedule", "cancel", "t", "x"), "is no place, such as 0-17"),
        (("schedule", "cancel", "t", "0-99999999999999999999"), "is no place"),
        (("schedule", "move", "t", "0-1"), "either --delay or --to"),
        (("schedule", "move", "t", "0-1", "--delay", "1s", "--to", FAR), "either --delay or --to"),
    ],
)
def test_wrong_usage(commands: Commands, arguments: tuple[str, ...], error: str) -> None:
    outcome = commands(*arguments)
    assert outcome.code == 2
    assert error in outcome.error


def test_refusals_are_told(commands: Commands, name: str) -> None:
    for command in ("list", "count"):
        missing = commands("schedule", command, name)
        assert missing.code == 1
        # A refusal that is not tried again, for as long as the client's time-out.
        assert f"topic '{name}' does not exist" in missing.error


def test_the_client_turns_pages(cluster: Cluster, commands: Commands, topic: str) -> None:
    lines = b"".join(b"%d\n" % number for number in range(1200))
    commands.succeed("produce", topic, "--partition", "0", "--delay", "1h", typed=lines)
    schedule = Schedule(cluster, topic)

    found = list(schedule.records(with_contents=True))
    assert [each.value for each in found] == [b"%d" % number for number in range(1200)]
    (cancelled, missing) = schedule.cancel(found[7].place, Place(1, 5))
    assert (cancelled.record_count, cancelled.refusal) == (1, None)
    assert missing.refusal is not None
    (counted,) = pending(cluster, [topic])
    assert (counted.record_count, counted.next_due_ms is not None) == (1199, True)
