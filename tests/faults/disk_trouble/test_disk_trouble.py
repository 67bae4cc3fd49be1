"""Brokers under load whose disk is full or broken: no false acknowledgement, no partial batch, no lost record."""

import re
from pathlib import Path

import pytest

from headwater.errors import ErrorCode
from tests.faults.disk_trouble.full_disks import FullDisk, limited_files, told_to_be_full
from tests.faults.disk_trouble.lives import LAUNCHER, Troubles, meet, note_beside, run, survive_a_full_disk
from tests.faults.disk_trouble.troubles import Trouble
from tests.faults.kills.life import Life
from tests.support.broker.processes import wait_until
from tests.support.kafka.raw_client import RawClient, batch_of

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("full_disk", [told_to_be_full, limited_files])
def test_a_broker_with_a_full_disk_refuses_writes_serves_reads_and_recovers(
    tmp_path: Path, full_disk: FullDisk
) -> None:
    note = note_beside(tmp_path)
    with Life(tmp_path, launcher=(LAUNCHER, str(note.path))) as life:
        for _ in range(2):
            survive_a_full_disk(life, note, full_disk)


BROKEN = {
    "write": Trouble("write", "amid", "", "EIO"),
    "fsync refused": Trouble("sync", "before", "", "EIO"),
    # The kernel's asynchronous sync reports the failure this way.
    "fsync failed": Trouble("sync", "after", "", "EIO"),
}


@pytest.mark.parametrize("directory", ["__consumer_offsets-*", "__transaction_state-*", "__headwater_catalog-0"])
@pytest.mark.parametrize("trouble", BROKEN.values(), ids=BROKEN)
def test_a_broken_disk_takes_a_log_offline_and_the_next_start_has_all_acknowledged_records(
    tmp_path: Path, trouble: Trouble, directory: str
) -> None:
    note = note_beside(tmp_path)
    with Life(tmp_path, launcher=(LAUNCHER, str(note.path))) as life:
        meet(life.broker, note, trouble._replace(pattern=f"{directory}/*.log"))
        life.broker.kill()
        life.recover()


@pytest.mark.parametrize("trouble", BROKEN.values(), ids=BROKEN)
def test_a_partition_with_a_disk_error_stays_offline_after_the_disk_recovers(tmp_path: Path, trouble: Trouble) -> None:
    """A successful sync after a failed one says nothing about the data of the first."""
    note = note_beside(tmp_path)
    with Life(tmp_path, launcher=(LAUNCHER, str(note.path))) as life:
        meet(life.broker, note, trouble._replace(pattern="numbers-0/*.log"))
        # If the kernel refuses to begin a sync, the broker tries once more in a thread before it takes the log offline.
        wait_until(lambda: re.search("numbers-0 .*offline", life.broker.log), "nobody would know")
        note.remove()
        with RawClient(life.broker) as raw:
            for _ in range(3):
                assert raw.produce("numbers", batch_of(b"false")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert raw.fetch("numbers", 0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            # Another partition is not affected.
            assert raw.fetch("numbers", 0, partition=1).error_code == 0
        life.broker.kill()
        life.recover()


def test_the_long_form_runs_and_counts_troubles(tmp_path: Path) -> None:
    assert run(tmp_path, seed=1, deadline=float("inf"), troubles_max=1) == Troubles(lives=1, troubles=1)
