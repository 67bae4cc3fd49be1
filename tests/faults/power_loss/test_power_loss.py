"""Whole brokers that lose power at random steps, and again during recovery, keep all their promises."""

from pathlib import Path

import pytest

from tests.faults.power_loss.exploring import Violation, explore
from tests.faults.power_loss.forgetful_disks import DiskThatSyncsNoFiles, DiskThatSyncsNoNames
from tests.faults.power_loss.recording import RecordingDisk

pytestmark = pytest.mark.slow

OPERATIONS = 50
CRASHES = 200


@pytest.mark.parametrize("flush", ["ack", "os"])
@pytest.mark.parametrize("seed", range(5))
async def test_a_broker_keeps_its_promises_after_a_power_failure(tmp_path: Path, seed: int, flush: str) -> None:
    survived = explore(tmp_path, seed=seed, flush=flush, operations=OPERATIONS, crashes=CRASHES)
    assert len([crash async for crash in survived]) >= CRASHES


@pytest.mark.parametrize(
    "operations",
    [
        ("create_topic", "delete_topic", "create_topic"),
        ("produce_in_transaction", "end_transaction"),
        ("commit", "restart"),
        ("change_rule", "change_rule", "change_rule", "change_rule"),
        ("produce", "checkpoint", "delete_records"),
    ],
    ids=" ".join,
)
async def test_a_short_life_survives_a_crash_after_every_step_in_every_way(
    tmp_path: Path, operations: tuple[str, ...]
) -> None:
    survived = explore(tmp_path, seed=1, flush="ack", operations=operations)
    assert len([crash async for crash in survived]) > 50


@pytest.mark.parametrize("disk_type", [DiskThatSyncsNoFiles, DiskThatSyncsNoNames])
async def test_the_checks_detect_a_missing_sync(tmp_path: Path, disk_type: type[RecordingDisk]) -> None:
    survived = explore(tmp_path, seed=1, flush="ack", operations=20, crashes=100, disk_type=disk_type)
    with pytest.raises(Violation):
        _ = [crash async for crash in survived]
