"""Queues, dead letters and delayed records keep their promises after power failures, also in a recovery."""

from pathlib import Path

import pytest

from tests.faults.power_loss.forgetful_disks import DiskThatSyncsNoFiles
from tests.faults.power_loss.recording import RecordingDisk
from tests.faults.queues.power_loss import explore

OPERATIONS = 40


async def test_a_short_life_survives(tmp_path: Path) -> None:
    assert len([step async for step in explore(tmp_path, seed=0, operations=OPERATIONS, crashes=10)]) == 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
async def test_queues_keep_their_promises_after_a_power_failure(tmp_path: Path, seed: int) -> None:
    assert len([step async for step in explore(tmp_path, seed=seed, operations=OPERATIONS, crashes=80)]) == 80


@pytest.mark.slow
@pytest.mark.parametrize("disk_type", [DiskThatSyncsNoFiles])
async def test_the_checks_detect_a_missing_sync(tmp_path: Path, disk_type: type[RecordingDisk]) -> None:
    with pytest.raises(AssertionError):
        _ = [step async for step in explore(tmp_path, seed=1, operations=20, crashes=60, disk_type=disk_type)]
