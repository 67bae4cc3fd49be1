"""Bit rot on the disk of a stopped broker never reaches a client."""

from pathlib import Path
from random import Random

import pytest

from headwater.ids import TopicName, TopicPartition
from headwater.storage import checkpoints
from headwater.storage.disk import Disk
from tests.faults.bit_rot.flipping import Content, damage, fill, gathered_reports, live_with

ROTS = 100


@pytest.mark.parametrize("seed", range(5))
async def test_no_client_gets_damaged_records(tmp_path: Path, seed: int) -> None:
    content: Content = await fill(tmp_path / "sound")
    assert [len(found) for found in content.values()] == [40, 24, 7]
    random = Random(seed)
    for _ in range(ROTS):
        rot = damage(tmp_path / "sound", tmp_path / "rotten", random)
        with gathered_reports() as reports:
            found = await live_with(tmp_path / "rotten", content, reports)
        assert not found.violations, f"{rot}: {found}"


async def test_topics_do_not_vanish_when_the_start_of_their_catalog_rots(tmp_path: Path) -> None:
    """The broker never deletes the head of an internal log, so a checkpoint that claims it must be wrong."""
    content = await fill(tmp_path)
    offsets = {TopicPartition(TopicName(topic), 0): 4 for topic in ("__headwater_catalog", "__transaction_state")}
    checkpoints.write_offsets(Disk(), tmp_path / checkpoints.START_OFFSETS, offsets)

    found = await live_with(tmp_path, content, [])

    assert not found.violations
