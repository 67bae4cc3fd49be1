import os
from pathlib import Path
from struct import Struct

import pytest
import yaml

from headwater.protocol.batches import batch
from headwater.protocol.batches.batch import Marker
from headwater.protocol.batches.compression import Codec
from headwater.protocol.batches.records import Record
from tests.support.cli.commands import Commands

NOON_MS = 1_748_779_200_000  # 2025-06-01T12:00:00Z
COMMANDS = Commands("127.0.0.1:1")


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """A segment with three compressed records, a transaction marker, and one record that is not text."""
    compressed = batch.build(
        [Record(10 + index, NOON_MS + index, b"k", b"v%d" % index, (("h", b"1"),)) for index in range(3)],
        base_offset=10,
        codec=Codec.ZSTD,
        leader_epoch=4,
    )
    marker = batch.build_marker(
        Marker(True, 0), base_offset=13, timestamp_ms=NOON_MS, producer_id=7, producer_epoch=2, leader_epoch=4
    )
    raw = batch.build(
        [Record(14, -1, None, b"\xff")],
        base_offset=14,
        producer_id=7,
        producer_epoch=2,
        base_sequence=0,
        transactional=True,
    )
    path = tmp_path / "00000000000000000010.log"
    path.write_bytes(compressed + marker + raw)
    return path


def test_batches_and_records_are_shown(segment: Path) -> None:
    lines = COMMANDS.succeed("log", "dump", str(segment)).lines
    assert lines[0].startswith("at 0: offsets 10 to 12, 3 records, ")
    assert lines[0].endswith("compression zstd, epoch 4, 2025-06-01T12:00:00.002Z")
    assert lines[1].split() == ["10", "2025-06-01T12:00:00.000Z", "k", "h=1", "v0"]
    assert lines[4].endswith("producer 7/2, control")
    assert lines[6].endswith("no timestamp, producer 7/2, sequence 0 to 0, transactional")
    assert lines[7].split() == ["14", "-", "-", "-", r"\xff"]
    assert lines[-1] == "3 batches, 5 records, no problems"


def test_records_can_be_left_out(segment: Path) -> None:
    assert len(COMMANDS.succeed("log", "dump", str(segment), "--no-records").lines) == 4
    rows = COMMANDS.succeed("log", "dump", str(segment), "--no-records", "--format", "json").rows
    assert all("records" not in row for row in rows)


def test_json_has_every_field(segment: Path) -> None:
    rows = COMMANDS.succeed("log", "dump", str(segment), "--format", "json").rows
    assert rows == list(yaml.safe_load_all(COMMANDS.succeed("log", "dump", str(segment), "--format", "yaml").output))
    assert [(row["base_offset"], row["last_offset"], row["control"]) for row in rows] == [
        (10, 12, False),
        (13, 13, True),
        (14, 14, False),
    ]
    assert rows[0]["position"] == 0
    assert rows[1]["position"] == rows[0]["bytes"]
    assert rows[0]["records"][2] == {
        "offset": 12,
        "timestamp": "2025-06-01T12:00:00.002Z",
        "timestamp_ms": NOON_MS + 2,
        "key": "k",
        "value": "v2",
        "headers": [{"name": "h", "value": "1"}],
    }
    assert rows[2]["records"][0]["value_base64"] == "/w=="


def test_damage_is_shown_in_its_place_and_by_the_exit_code(segment: Path) -> None:
    data = bytearray(segment.read_bytes())
    data[70] ^= 1
    segment.write_bytes(data + b"torn")

    outcome = COMMANDS("log", "dump", str(segment))

    assert outcome.code == 1
    assert outcome.lines[1].startswith("  problem: checksum")
    assert outcome.lines[-3:] == [
        f"at {len(data)}: 4 bytes that are no batch",
        "  problem: 4 bytes are left, too few for a batch",
        "3 batches, 5 records, 2 problems",
    ]
    rows = COMMANDS("log", "dump", str(segment), "--format", "json").rows
    assert [len(row["problems"]) for row in rows] == [1, 0, 0, 1]
    assert rows[3] == {"position": len(data), "bytes": 4, "problems": ["4 bytes are left, too few for a batch"]}


def test_an_unknown_codec_is_shown_by_its_number(segment: Path) -> None:
    data = bytearray(segment.read_bytes())
    data[22] = 7
    segment.write_bytes(data)
    outcome = COMMANDS("log", "dump", str(segment), "--no-records")
    assert outcome.code == 1
    assert "compression unknown (7)" in outcome.lines[0]


def test_indexes_are_compared_with_the_segment(segment: Path) -> None:
    segment.with_suffix(".index").write_bytes((99).to_bytes(4, "big") + (5).to_bytes(4, "big"))
    segment.with_suffix(".timeindex").write_bytes(b"")
    outcome = COMMANDS("log", "dump", str(segment), "--no-records")
    assert outcome.code == 1
    assert outcome.lines[-2].startswith("  problem: 00000000000000000010.index")
    rows = COMMANDS("log", "dump", str(segment), "--format", "json").rows
    assert len(rows[-1]["index_problems"]) == 1


def test_aborted_transactions_are_shown_and_compared_with_their_markers(segment: Path) -> None:
    entry = Struct(">hqqqq")
    segment.with_suffix(".txnindex").write_bytes(entry.pack(0, 7, 4, 13, 14) + entry.pack(0, 8, 5, 14, 15))
    outcome = COMMANDS("log", "dump", str(segment), "--no-records")
    assert outcome.code == 1
    assert outcome.lines[-4:] == [
        "aborted: producer 7, offsets 4 to 13",
        "aborted: producer 8, offsets 5 to 14",
        "  problem: 00000000000000000010.txnindex: no marker at offset 14",
        "3 batches, 5 records, 1 problems",
    ]
    rows = COMMANDS("log", "dump", str(segment), "--format", "json").rows
    assert rows[-2]["aborted_transactions"][0] == {
        "producer_id": 7,
        "first_offset": 4,
        "last_offset": 13,
        "last_stable_offset": 14,
    }
    segment.with_suffix(".txnindex").write_bytes(b"torn")
    assert COMMANDS("log", "dump", str(segment)).code == 1


@pytest.mark.parametrize("shape", ["table", "json"])
def test_a_closed_pipe_is_no_failure(segment: Path, shape: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb", buffering=0) as pipe:
        outcome = COMMANDS("log", "dump", str(segment), "--format", shape, stdout=pipe)
    assert (outcome.code, outcome.error) == (0, "")


def test_a_live_segment_of_a_broker_is_in_order(commands: Commands, name: str, broker_files: Path) -> None:
    commands.succeed("topic", "create", name, "--partitions", "1")
    commands.succeed("produce", name, typed=b"line\n" * 100)
    (file,) = (broker_files / f"{name}-0").glob("*.log")
    assert commands.succeed("log", "dump", str(file), "--no-records").lines[-1] == "1 batches, 100 records, no problems"


def test_a_missing_file_is_exit_code_2(tmp_path: Path) -> None:
    outcome = COMMANDS("log", "dump", str(tmp_path / "nosuch.log"))
    assert outcome.code == 2
    assert "does not exist" in outcome.error
    assert COMMANDS("log", "dump", str(tmp_path)).code == 2
