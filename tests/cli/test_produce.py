import os
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from headwater.client.cluster import Cluster
from headwater.client.connection import BrokerConnection
from headwater.client.consumer import ConsumedRecord, Consumer
from headwater.client.offsets import EARLIEST, LATEST, list_offsets
from headwater.ids import TopicName, TopicPartition
from headwater.protocol.batches.compression import Codec
from headwater.protocol.messages.records.produce import ProduceRequest
from tests.support.cli.commands import Commands, Terminal


@pytest.fixture
def topic(commands: Commands, name: str) -> str:
    commands.succeed("topic", "create", name, "--partitions", "2")
    return name


def read(cluster: Cluster, topic: str) -> list[ConsumedRecord]:
    partitions = [TopicPartition(TopicName(topic), one.index) for one in cluster.topic(topic).partitions]
    ends = list_offsets(cluster, partitions, LATEST)
    consumer = Consumer(cluster, list_offsets(cluster, partitions, EARLIEST))
    records: list[ConsumedRecord] = []
    while consumer.positions != ends:
        records += consumer.poll()
    return sorted(records, key=lambda record: record.timestamp_ms)


def test_an_argument_is_the_value(commands: Commands, cluster: Cluster, topic: str) -> None:
    written = commands.succeed(
        "produce", topic, "a value", "--key", "k", "--header", "a=1", "--header", "b==2", "--header", "b=",
        "--partition", "1", "--timestamp", "2025-06-01T12:30:00.250+02:00",
    )  # fmt: skip
    assert [line.split() for line in written.lines] == [
        ["TOPIC", "PARTITION", "RECORDS", "FIRST_OFFSET", "LAST_OFFSET"],
        [topic, "1", "1", "0", "0"],
    ]
    assert read(cluster, topic) == [
        ConsumedRecord(topic, 1, 0, 1_748_773_800_250, b"k", b"a value", (("a", b"1"), ("b", b"=2"), ("b", b"")))
    ]


def test_a_file_is_one_value_byte_for_byte(commands: Commands, cluster: Cluster, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "value"
    file.write_bytes(b"\xff\x00\nsecond line\n")
    commands.succeed("produce", topic, "--file", str(file), "--timestamp", "1748781000000ms")
    (record,) = read(cluster, topic)
    assert (record.value, record.key, record.timestamp_ms) == (file.read_bytes(), None, 1_748_781_000_000)


def test_a_null_value_is_written(commands: Commands, cluster: Cluster, topic: str) -> None:
    commands.succeed("produce", topic, "--null", "--key", "gone")
    (record,) = read(cluster, topic)
    assert (record.key, record.value) == (b"gone", None)


def test_every_line_is_a_record(commands: Commands, cluster: Cluster, topic: str) -> None:
    commands.succeed("produce", topic, "--partition", "0", "--key", "k", typed=b"one\n\n\xff\r\nlast without newline")
    records = read(cluster, topic)
    assert [record.value for record in records] == [b"one", b"", b"\xff\r", b"last without newline"]
    assert {record.key for record in records} == {b"k"}


def test_no_lines_write_nothing(commands: Commands, cluster: Cluster, topic: str) -> None:
    assert commands.succeed("produce", topic).output == b""
    assert read(cluster, topic) == []


def test_lines_are_split_at_the_first_separator(commands: Commands, cluster: Cluster, topic: str) -> None:
    written = commands.succeed(
        "produce", topic, "--key-separator", "::", "--partition", "1", "--format", "yaml", typed=b"a::1::2\n::\n"
    )
    assert [(record.key, record.value) for record in read(cluster, topic)] == [(b"a", b"1::2"), (b"", b"")]
    assert yaml.safe_load(written.output) == [
        {"topic": topic, "partition": 1, "records": 2, "first_offset": 0, "last_offset": 1}
    ]


def test_a_line_without_separator_is_named_and_the_lines_before_it_are_written(
    commands: Commands, cluster: Cluster, topic: str
) -> None:
    outcome = commands("produce", topic, "--key-separator", ":", "--format", "json", typed=b"a:1\nb:2\nc\nd:4\n")
    assert (outcome.code, outcome.error) == (1, "error: line 3 has no key separator ':'\n")
    assert sum(row["records"] for row in outcome.rows) == 2
    assert [record.key for record in read(cluster, topic)] == [b"a", b"b"]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_lines_are_compressed(commands: Commands, cluster: Cluster, topic: str, codec: str) -> None:
    commands.succeed("produce", topic, "--compression", codec, "--partition", "0", typed=b"line\n" * 1000)
    consumer = Consumer(cluster, {TopicPartition(TopicName(topic), 0): 0})
    (fetched,) = consumer.fetch_batches()
    assert fetched.header.codec == Codec[codec.upper()]
    assert fetched.header.record_count == 1000


@pytest.mark.parametrize("acks", ["0", "1"])
def test_weaker_acknowledgements_can_be_chosen(commands: Commands, topic: str, acks: str) -> None:
    (row,) = commands.succeed("produce", topic, "value", "--acks", acks, "--partition", "0", "--format", "json").rows
    offset = 0 if acks == "1" else None
    assert row == {"topic": topic, "partition": 0, "records": 1, "first_offset": offset, "last_offset": offset}


def test_a_rate_does_not_lose_or_reorder_anything(commands: Commands, cluster: Cluster, topic: str) -> None:
    lines = b"".join(b"%d\n" % number for number in range(30))
    commands.succeed("produce", topic, "--rate", "400", "--partition", "0", typed=lines)
    assert [record.offset for record in read(cluster, topic)] == list(range(30))


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("t", "v", "--null"),
        ("t", "v", "--file", __file__),
        ("t", "v", "--key-separator", ":"),
        ("t", "--key", "k", "--key-separator", ":"),
        ("t", "--key-separator", ""),
        ("t", "v", "--partition", "-1"),
        ("t", "v", "--rate", "0"),
        ("t", "v", "--header", "nothing"),
        ("t", "v", "--header", "a\nb=c"),
        ("t", "v", "--timestamp", "1748781000000"),
        ("t", "v", "--timestamp", "yesterday"),
        ("t", "v", "--compression", "brotli"),
        ("t", "v", "--acks", "2"),
        ("t", "--file", "/no/such/file"),
    ],
)
def test_wrong_usage_has_exit_code_2(commands: Commands, arguments: tuple[str, ...]) -> None:
    outcome = commands("produce", *arguments)
    assert outcome.code == 2
    assert "Usage: headwater produce" in outcome.error


def test_a_missing_partition_is_one_line_and_exit_code_1(commands: Commands, topic: str) -> None:
    outcome = commands("produce", topic, "v", "--partition", "7")
    assert (outcome.code, outcome.output) == (1, b"")
    assert outcome.error == f"error: topic {topic!r} has partitions 0 to 1, not 7\n"


def test_a_line_that_is_too_long_is_refused(commands: Commands, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.cli.produce.VALUE_BYTES_MAX", 10)
    outcome = commands("produce", topic, typed=b"12345678901")
    assert (outcome.code, outcome.error) == (1, "error: a line is longer than 10 bytes\n")


def test_a_file_that_is_too_large_is_refused(
    commands: Commands, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.cli.produce.VALUE_BYTES_MAX", 10)
    file = tmp_path / "value"
    file.write_bytes(b"12345678901")
    outcome = commands("produce", topic, "--file", str(file))
    assert (outcome.code, outcome.error) == (1, f"error: {file} is larger than 10 bytes\n")


def test_arguments_that_are_not_text_keep_their_bytes_or_are_refused(
    commands: Commands, cluster: Cluster, topic: str
) -> None:
    raw = os.fsdecode(b"\xff")
    commands.succeed("produce", topic, raw, "--key", raw, "--header", f"h={raw}")
    (record,) = read(cluster, topic)
    assert (record.key, record.value, record.headers) == (b"\xff", b"\xff", (("h", b"\xff"),))
    assert commands("produce", topic, "v", "--header", f"{raw}=1").code == 2
    assert commands("produce", raw, "v").code == 1


def test_each_line_is_written_at_once_and_an_interruption_loses_none(
    commands: Commands, cluster: Cluster, topic: str
) -> None:
    process = commands.start("produce", topic, "--partition", "0")
    assert process.stdin is not None
    process.stdin.write(b"first\nunfinished")
    process.stdin.flush()
    partition = TopicPartition(TopicName(topic), 0)
    while list_offsets(cluster, [partition], LATEST)[partition] == 0:
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    output, error = process.communicate(timeout=30)
    assert process.returncode == 130
    assert output.decode().splitlines()[1].split() == [topic, "0", "1", "0", "0"]
    assert b"Traceback" not in error


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_records_sent_before_an_interruption_are_counted(
    commands: Commands, topic: str, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    send = BrokerConnection.send

    def send_and_interrupt(*arguments: Any, **named: Any) -> Any:
        sent = send(*arguments, **named)
        if isinstance(arguments[1], ProduceRequest):
            signal.raise_signal(number)
        return sent

    monkeypatch.setattr(BrokerConnection, "send", send_and_interrupt)
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb", buffering=0) as lines, os.fdopen(writer, "wb", buffering=0) as person:
        person.write(b"first\nunfinished")
        outcome = commands("produce", topic, "--partition", "0", stdin=lines)
    assert outcome.code == 130
    assert [line.split() for line in outcome.lines[1:]] == [[topic, "0", "1", "0", "0"]]


@pytest.mark.parametrize("quiet", [True, False])
def test_progress_is_shown_on_a_terminal_unless_quiet(
    commands: Commands, topic: str, tmp_path: Path, quiet: bool
) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"line\n" * 5000)
    with Terminal() as terminal, file.open("rb") as lines:
        outcome = commands("produce", topic, *["--quiet"] * quiet, stdin=lines, stderr=terminal.side)
        shown = terminal.shown()
    assert outcome.code == 0
    assert sum(int(line.split()[2]) for line in outcome.lines[1:]) == 5000
    assert (b"5000 records" in shown, b"25.0/25.0 kB" in shown) == ((not quiet,) * 2)


def test_progress_of_a_pipe_counts_received_records(commands: Commands, topic: str) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"1\n2\n3")
    os.close(writing)
    with Terminal() as terminal, os.fdopen(reading, "rb") as pipe:
        assert commands("produce", topic, stdin=pipe, stderr=terminal.side).code == 0
        assert b"3 records" in terminal.shown()
