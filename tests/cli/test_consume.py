import io
import json
import os
import signal
from base64 import b64encode

import pytest
import yaml

from headwater.cli.consume import Start, StartType
from headwater.cli.options import time_text
from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.producer import Producer
from headwater.ids import TopicName, TopicPartition
from tests.support.cli.commands import Commands, Terminal

NOON_MS = 1_748_779_200_000  # 2025-06-01T12:00:00Z


@pytest.fixture
def topic(cluster: Cluster, name: str) -> str:
    """A topic with ten values in each of two partitions, a second apart."""
    Admin(cluster).create_topic(name, partition_count=2)
    with Producer(cluster) as producer:
        for number in range(20):
            producer.send(
                name,
                b"v%d" % number,
                key=b"k%d" % number,
                partition=number % 2,
                timestamp_ms=NOON_MS + number * 1000,
            )
    return name


def values(commands: Commands, *arguments: str) -> list[str]:
    return sorted(commands.succeed("consume", *arguments).lines, key=lambda line: int(line[1:]))


def expected(*numbers: int) -> list[str]:
    return [f"v{number}" for number in numbers]


@pytest.mark.parametrize(
    ("start", "numbers"),
    [
        ("beginning", range(20)),
        ("end", []),
        ("8", [16, 17, 18, 19]),
        ("-1", [18, 19]),
        ("-100", range(20)),
        ("2025-06-01T12:00:17Z", [17, 18, 19]),
        ("2025-06-01T14:00:17+02:00", [17, 18, 19]),
        ("2025-06-01T12:00:17", [17, 18, 19]),
        ("2025-06-01", range(20)),
        (f"{NOON_MS + 16_500}ms", [17, 18, 19]),
        ("9999-01-01", []),
    ],
)
def test_reading_begins_at_the_chosen_start(commands: Commands, topic: str, start: str, numbers: list[int]) -> None:
    assert values(commands, topic, "--from", start) == expected(*numbers)


def test_partitions_and_a_maximum_can_be_chosen(commands: Commands, topic: str) -> None:
    assert values(commands, topic, "--partition", "1") == expected(*range(1, 20, 2))
    assert values(commands, topic, "--partition", "1", "--partition", "0", "--partition", "1") == expected(*range(20))
    assert values(commands, topic, "--partition", "0", "--max", "3") == expected(0, 2, 4)
    assert values(commands, topic, "--max", "0") == []


def test_an_offset_out_of_range_is_reported_and_the_nearest_taken(
    commands: Commands, cluster: Cluster, topic: str
) -> None:
    Admin(cluster).delete_records({TopicPartition(TopicName(topic), 0): 5})
    outcome = commands.succeed("consume", topic, "--from", "3")
    assert len(outcome.lines) == 5 + 7
    assert outcome.error == f"note: {topic}-0 has offsets 5 to 10, not 3; reading from 5\n"
    assert commands.succeed("consume", topic, "--from", "11").output == b""


def test_keys_can_be_printed_before_values(commands: Commands, topic: str) -> None:
    outcome = commands.succeed("consume", topic, "--partition", "0", "--max", "2", "--key-separator", "=>")
    assert outcome.lines == ["k0=>v0", "k2=>v2"]


def test_consumed_output_can_be_produced_again(commands: Commands, topic: str, name: str) -> None:
    first = commands.succeed("consume", topic, "--key-separator", "\t")
    commands.succeed("produce", f"{name}.copy", "--key-separator", "\t", typed=first.output)
    second = commands.succeed("consume", f"{name}.copy", "--key-separator", "\t")
    assert sorted(first.lines) == sorted(second.lines)


def test_json_is_one_object_per_line(commands: Commands, topic: str) -> None:
    (row,) = commands.succeed("consume", topic, "--partition", "1", "--max", "1", "--format", "json").rows
    assert row == {
        "topic": topic,
        "partition": 1,
        "offset": 0,
        "timestamp": "2025-06-01T12:00:01.000Z",
        "timestamp_ms": NOON_MS + 1000,
        "key": "k1",
        "value": "v1",
        "headers": [],
    }


@pytest.fixture
def odd_topic(cluster: Cluster, name: str) -> str:
    """Records that are not plain text."""
    Admin(cluster).create_topic(name, partition_count=1, settings={"message.timestamp.after.max.ms": str(2**63 - 1)})
    with Producer(cluster) as producer:
        producer.send(name, b"\xff\xfe", key=b"\x80", headers=(("raw", b"\x81"), ("null", None)), timestamp_ms=0)
        producer.send(name, None, timestamp_ms=NOON_MS)
        producer.send(name, "tschüß\x1b[31m\nnext".encode(), timestamp_ms=2**60)
    return name


def test_bytes_that_are_not_text_are_base64_in_json_and_yaml(commands: Commands, odd_topic: str) -> None:
    rows = commands.succeed("consume", odd_topic, "--format", "json").rows
    documents = list(yaml.safe_load_all(commands.succeed("consume", odd_topic, "--format", "yaml").output))
    assert rows == documents
    raw, null, text = rows
    assert raw["value_base64"] == b64encode(b"\xff\xfe").decode()
    assert raw["key_base64"] == b64encode(b"\x80").decode()
    assert raw["headers"] == [{"name": "raw", "value_base64": "gQ=="}, {"name": "null", "value": None}]
    assert "value" not in raw
    assert (null["key"], null["value"]) == (None, None)
    assert text["value"] == "tschüß\x1b[31m\nnext"
    assert (raw["timestamp"], text["timestamp"], text["timestamp_ms"]) == ("1970-01-01T00:00:00.000Z", None, 2**60)


def test_a_table_escapes_unprintable_characters(commands: Commands, odd_topic: str) -> None:
    header, raw, null, text = commands.succeed("consume", odd_topic, "--format", "table").lines
    assert header.split() == ["PARTITION", "OFFSET", "TIMESTAMP", "KEY", "HEADERS", "VALUE"]
    assert raw.split() == ["0", "0", "1970-01-01T00:00:00.000Z", r"\x80", r"raw=\x81,", "null=-", r"\xff\xfe"]
    assert null.split() == ["0", "1", "2025-06-01T12:00:00.000Z", "-", "-", "-"]
    assert text.endswith(r"tschüß\x1b[31m\nnext")


def test_values_are_printed_byte_for_byte(commands: Commands, odd_topic: str) -> None:
    output = commands.succeed("consume", odd_topic).output
    assert output == b"\xff\xfe\n\n" + "tschüß\x1b[31m\nnext\n".encode()


def test_control_sequences_are_not_sent_to_a_terminal(commands: Commands, odd_topic: str) -> None:
    with Terminal() as terminal:
        assert commands("consume", odd_topic, stdout=terminal.side).code == 0
        assert terminal.shown().decode().splitlines() == [r"\xff\xfe", "", r"tschüß\x1b[31m\nnext"]


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("t", "--from", "soon"),
        ("t", "--from", ""),
        ("t", "--from", "-"),
        ("t", "--from", "99999999999999999999"),
        ("t", "--from", "12:30"),
        ("t", "--partition", "x"),
        ("t", "--max", "-1"),
        ("t", "--format", "json", "--key-separator", ":"),
    ],
)
def test_wrong_usage_has_exit_code_2(commands: Commands, arguments: tuple[str, ...]) -> None:
    outcome = commands("consume", *arguments)
    assert outcome.code == 2
    assert "Usage: headwater consume" in outcome.error


def test_a_missing_topic_or_partition_is_one_line_and_exit_code_1(commands: Commands, topic: str) -> None:
    missing = commands("consume", "nosuch")
    assert (missing.code, missing.error) == (1, "error: topic 'nosuch' does not exist\n")
    beyond = commands("consume", topic, "--partition", "2")
    assert (beyond.code, beyond.error) == (1, f"error: topic {topic!r} has partitions 0 to 1, not 2\n")


def test_committed_records_only_can_be_asked_for(commands: Commands, topic: str) -> None:
    assert values(commands, topic, "--committed") == expected(*range(20))


# -- how it stops


def test_following_waits_for_new_records_and_ends_cleanly_when_interrupted(
    commands: Commands, cluster: Cluster, topic: str
) -> None:
    process = commands.start("consume", topic, "--from", "-1", "--partition", "0", "--follow")
    assert process.stdout is not None
    assert process.stdout.readline() == b"v18\n"
    with Producer(cluster) as producer:
        producer.send(topic, b"new", partition=0)
    assert process.stdout.readline() == b"new\n"
    process.send_signal(signal.SIGINT)
    rest, error = process.communicate(timeout=30)
    assert (process.returncode, rest) == (0, b"")
    assert error.strip() == b""


@pytest.mark.parametrize("follow", [["--follow"], []])
def test_a_closed_pipe_ends_the_command_without_an_error(
    commands: Commands, cluster: Cluster, topic: str, follow: list[str]
) -> None:
    with Producer(cluster) as producer:
        for _ in range(200):
            producer.send(topic, b"x" * 1000)
    process = commands.start("consume", topic, *follow)
    assert process.stdout is not None
    assert process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr as error:
        assert error.read() == b""
    assert process.wait(timeout=30) == 0
    assert process.stdin is not None
    process.stdin.close()


def test_a_closed_pipe_is_noticed_while_no_records_arrive(commands: Commands, topic: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb", buffering=0) as pipe:
        outcome = commands("consume", topic, "--from", "end", "--follow", stdout=pipe)
    assert (outcome.code, outcome.error) == (0, "")


class Interrupting(io.BytesIO):
    def write(self, _: object) -> int:
        raise KeyboardInterrupt


def test_an_interruption_is_exit_code_130_unless_following(commands: Commands, topic: str) -> None:
    assert commands("consume", topic, stdout=Interrupting()).code == 130
    assert commands("consume", topic, "--follow", stdout=Interrupting()).code == 0


def test_json_from_a_subprocess_has_every_record(commands: Commands, topic: str) -> None:
    process = commands.start("consume", topic, "--format", "json")
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert len([json.loads(line) for line in output.splitlines()]) == 20


# -- points in time


def test_offsets_and_times_are_told_apart_in_the_start_option() -> None:
    def parse(text: str) -> Start:
        return StartType().convert(text, None, None)

    assert parse("20250601") == Start("offset", 20250601), "a bare number is an offset"
    assert parse("2025-06-01") == Start("time", NOON_MS - 12 * 3_600_000)
    assert parse("20250601ms") == Start("time", 20250601)
    assert parse("-5") == Start("tail", 5)
    assert parse("end") == Start("end")


def test_times_beyond_the_calendar_have_no_text() -> None:
    assert time_text(253_402_300_799_999) == "9999-12-31T23:59:59.999Z"
    assert time_text(253_402_300_800_000) is None
    assert time_text(2**62) is None
    assert time_text(-1) is None
