"""`headwater log verify` finds and reports real damage in a data directory, and repairs it only when asked to."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from headwater.storage.disk import Disk
from headwater.storage.inspection.segment_report import inspect_segment
from tests.support.broker.embedded_broker import batch_of, create, produce, readable, running
from tests.support.cli.commands import Commands, Outcome

COMMANDS = Commands("127.0.0.1:1")
VALUES = [b"%04d" % number for number in range(40)]


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data directory of a stopped broker: a topic of several segments in which each record is a batch of its own."""
    directory = tmp_path_factory.mktemp("verify") / "data"

    async def fill() -> None:
        async with running(directory) as broker:
            orders = await create(broker, "orders", segment_bytes="900", index_interval_bytes="100")
            for number, value in enumerate(VALUES):
                batch = batch_of(value, producer_id=7, producer_epoch=0, base_sequence=number)
                assert (await produce(broker, orders, batch)).error is None
            await create(broker, "other")

    asyncio.run(fill())
    return directory


@pytest.fixture
def data(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "data"))


def verify(data: Path, *options: str) -> Outcome:
    return COMMANDS("log", "verify", str(data), *options)


def segments(data: Path) -> list[Path]:
    return sorted((data / "orders-0").glob("*.log"))


OFFSET, LENGTH, RECORDS = 4, 9, 65  # Byte positions within these fields of a batch.


def batch_positions(path: Path) -> list[int]:
    return [report.position for report in inspect_segment(Disk(), path)]


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0x10
    path.write_bytes(content)


async def served(data: Path) -> list[bytes | None]:
    async with running(data) as broker:
        return readable(broker.partition("orders", 0))


def test_the_data_directory_of_a_stopped_broker_is_intact(data: Path) -> None:
    outcome = verify(data)
    assert outcome.code == 0
    assert outcome.error.strip() == "nothing is damaged"


@pytest.mark.parametrize("field", [OFFSET, RECORDS])
def test_a_flipped_bit_is_reported_with_the_lost_offsets(data: Path, field: int) -> None:
    second = segments(data)[1]
    damaged_offset = int(second.stem) + 5
    flip(second, batch_positions(second)[5] + field)

    outcome = verify(data, "--format", "json")

    assert outcome.code == 1
    (row,) = outcome.rows
    assert row["file"] == f"orders-0/{second.name}"
    assert (row["first_offset"], row["next_offset"]) == (damaged_offset, damaged_offset + 1)
    assert verify(data).lines[1].split()[2] == f"{damaged_offset}-{damaged_offset}"


def test_after_a_wrong_batch_length_the_rest_of_the_segment_is_lost(data: Path) -> None:
    second, third = segments(data)[1:3]
    flip(second, batch_positions(second)[5] + LENGTH)
    (row,) = verify(data, "--format", "json").rows
    assert (row["first_offset"], row["next_offset"]) == (int(second.stem) + 5, int(third.stem))


def test_bytes_that_are_not_a_batch_cost_the_rest_of_their_segment(data: Path) -> None:
    second, third = segments(data)[1:3]
    second.write_bytes(second.read_bytes()[:-20] + bytes(20))
    (row,) = verify(data, "--format", "json").rows
    assert (row["first_offset"], row["next_offset"]) == (int(third.stem) - 1, int(third.stem))


def test_damage_at_the_end_of_the_last_segment_has_no_last_offset(data: Path) -> None:
    last = segments(data)[-1]
    last.write_bytes(last.read_bytes()[:-5])
    (row,) = verify(data, "--format", "json").rows
    assert (row["first_offset"], row["next_offset"]) == (len(VALUES) - 1, None)


@pytest.mark.parametrize(
    ("file", "behind"),
    [
        ("orders-0/00000000000000000000.index", b""),
        ("orders-0/00000000000000000000.timeindex", b""),
        ("orders-0/leader-epoch-checkpoint", b""),
        ("recovery-point-offset-checkpoint", b""),
        ("log-start-offset-checkpoint", b""),
        ("meta.properties", b"node.id="),
    ],
)
def test_damaged_auxiliary_files_cost_no_record(data: Path, file: str, behind: bytes) -> None:
    flip(data / file, (data / file).read_bytes().index(behind) + len(behind))
    rows = verify(data, "--format", "json").rows
    assert rows
    assert not any(row["lost_records"] for row in rows)
    if file != "meta.properties":
        assert "built anew" in verify(data, "--repair").error


def test_a_damaged_snapshot_is_reported(data: Path) -> None:
    snapshot = max((data / "orders-0").glob("*.snapshot"))
    flip(snapshot, snapshot.stat().st_size - 1)
    (row,) = verify(data, "--format", "json").rows
    assert row["file"] == f"orders-0/{snapshot.name}"


def test_only_the_chosen_topic_is_read(data: Path) -> None:
    flip(segments(data)[0], 100)
    assert verify(data, "--topic", "other").code == 0
    assert verify(data, "--topic", "orders").code == 1
    assert "there is no such topic" in verify(data, "--topic", "nothing").error


async def test_a_repair_keeps_all_before_the_damage_and_destroys_nothing(data: Path) -> None:
    before = [path.read_bytes() for path in segments(data)]
    second = segments(data)[1]
    flip(second, batch_positions(second)[5] + RECORDS)
    damaged = second.read_bytes()
    (row,) = verify(data, "--format", "json").rows
    assert [path.read_bytes() for path in segments(data)] == [before[0], damaged, *before[2:]], "told, not changed"

    outcome = verify(data, "--repair")

    assert outcome.code == 0
    assert f"orders-0 now ends before offset {row['first_offset']}" in outcome.error
    assert verify(data).code == 0
    (kept,) = data.glob("*-stray")
    assert [path.read_bytes() for path in sorted(kept.iterdir())] == [damaged, *before[2:]]
    async with running(data) as broker:
        orders = broker.partition("orders", 0)
        assert readable(orders) == VALUES[: row["first_offset"]]
        batch = batch_of(b"next", producer_id=7, producer_epoch=0, base_sequence=row["first_offset"])
        assert (await produce(broker, orders, batch)).error is None, "producers go on where the log ends"
    assert await served(data) == [*VALUES[: row["first_offset"]], b"next"]


async def test_batches_missing_from_the_end_are_reported_and_given_up_by_a_repair(data: Path) -> None:
    last = segments(data)[-1]
    os.truncate(last, batch_positions(last)[-2])
    (row,) = verify(data, "--format", "json").rows
    assert (row["first_offset"], row["next_offset"]) == (len(VALUES) - 2, len(VALUES))

    assert verify(data, "--repair").code == 0

    assert verify(data).code == 0
    assert await served(data) == VALUES[:-2]


async def test_a_corrupt_offset_of_the_last_batch_is_reported_and_cut_off(data: Path) -> None:
    last = segments(data)[-1]
    flip(last, batch_positions(last)[-1] + OFFSET)
    (row,) = verify(data, "--format", "json").rows
    assert row["first_offset"] == len(VALUES) - 1

    assert verify(data, "--repair").code == 0

    assert await served(data) == VALUES[:-1]


async def test_the_data_directory_of_a_running_broker_is_refused(data: Path) -> None:
    async with running(data):
        outcome = verify(data)
    assert outcome.code != 0
    assert "in use by a broker: stop it first" in outcome.error
