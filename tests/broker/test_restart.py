"""Restarts: leader epochs only rise, recreated topics share only their names, an incomplete catalog is refused."""

import asyncio
import errno
import logging
import os
import shutil
import threading
from pathlib import Path

import pytest

from headwater.broker.catalog.format import DamagedCatalog
from headwater.broker.shards.state_log import DamagedState
from headwater.errors import ErrorCode, Refusal
from headwater.storage.checkpoints import START_OFFSETS
from headwater.storage.data_directory import DataDirectory
from headwater.storage.disk import Disk
from tests.support.broker.embedded_broker import (
    batch_of,
    crash,
    create,
    produce,
    readable,
    run,
    running,
    sequenced,
    stage,
    start,
)
from tests.support.broker.faulty_disk import FULL, FaultyDisk

CATALOG = "__headwater_catalog-0"


# -- leader epochs


async def test_a_leader_epoch_rises_after_each_crash_and_never_falls(tmp_path: Path) -> None:
    broker = start(tmp_path)
    await create(broker, "t", 2)
    await produce(broker, broker.partition("t", 0), batch_of(b"v"))
    seen: list[list[int]] = []
    for is_clean in (False, False, True, True, False):
        await (broker.stop() if is_clean else crash(broker))
        broker = start(tmp_path)
        seen.append([broker.partition("t", index).leader_epoch for index in range(2)])
    assert seen == [[1, 1], [2, 2], [2, 2], [2, 2], [3, 3]]
    await produce(broker, broker.partition("t", 0), batch_of(b"w"))
    assert broker.partition("t", 0)._log.epochs.starts == [(0, 0), (3, 1)]
    await broker.stop()


async def test_recovery_after_a_crash_is_one_line_of_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    broker = start(tmp_path)
    await create(broker, "empty", 5)
    await produce(broker, await create(broker, "t"), batch := batch_of(b"v"))
    await crash(broker)

    caplog.clear()
    async with running(tmp_path):
        pass

    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert lines == [f"after an unclean stop, 6 partitions were recovered and {len(batch)} bytes verified"]


async def test_a_damaged_log_is_named_once_where_it_is_recovered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = start(tmp_path)
    await produce(broker, await create(broker, "t"), batch_of(b"v"))
    await crash(broker)
    with (tmp_path / "t-0" / "00000000000000000000.log").open("ab") as log:
        log.write(b"torn")

    caplog.clear()
    async with running(tmp_path):
        pass

    (line,) = [record.getMessage() for record in caplog.records if "cut 4 bytes" in record.getMessage()]
    assert line.count("t-0") == 1


async def test_a_disk_too_full_for_the_next_epoch_takes_no_partition_offline(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class FullDisk(Disk):
        is_full = True

        def rename(self, source: Path, target: Path) -> None:
            if self.is_full and target.name == "leader-epoch-checkpoint":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            super().rename(source, target)

    broker = start(tmp_path)
    await produce(broker, await create(broker, "t"), batch_of(b"v"))
    await crash(broker)
    disk = FullDisk()
    async with running(tmp_path, disk=disk) as broker:
        partition = broker.partition("t", 0)
        assert "leader epoch 1 of t-0 could not be written" in caplog.text
        assert readable(partition) == [b"v"]
        refused = await produce(broker, partition, batch_of(b"w"))
        assert refused.error is not None, "nothing is written in an epoch that a crash would forget"
        disk.is_full = False
        assert (await produce(broker, partition, batch_of(b"w"))).error is None
        assert partition._log.epochs.starts == [(0, 0), (1, 1)]


async def test_records_left_by_a_crash_are_flushed_before_they_become_visible(tmp_path: Path) -> None:
    broker = start(tmp_path)
    partition = await create(broker, "t", headwater_flush="os")
    await produce(broker, partition, batch_of(b"v"))
    assert partition._log.flushed_offset == 0
    await crash(broker)
    async with running(tmp_path) as broker:
        partition = broker.partition("t", 0)
        assert (partition.high_watermark, partition._log.flushed_offset) == (1, 1)


# -- producers


async def test_a_batch_refused_by_a_full_disk_is_not_acknowledged_when_retried_after_its_successor(
    tmp_path: Path,
) -> None:
    disk = FaultyDisk()
    async with running(tmp_path, disk=disk) as broker:
        partition = await create(broker, "cursed")
        disk.write_error = FULL
        assert (await produce(broker, partition, sequenced(0))).error is not None
        disk.heal()
        assert (await produce(broker, partition, sequenced(1))).error is None
        with pytest.raises(Refusal) as refused:
            stage(broker, partition, sequenced(0))
        assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert readable(partition) == [b"1"]


async def test_a_retry_is_recognised_after_a_clean_stop(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        partition = await create(broker, "t")
        for sequence in range(5):
            await produce(broker, partition, sequenced(sequence))
    async with running(tmp_path) as broker:
        for sequence in range(5):
            again = await produce(broker, broker.partition("t", 0), sequenced(sequence))
            assert again.base_offset == sequence


# -- topics of the same name


@pytest.mark.parametrize("is_restarted_between", [True, False])
async def test_a_recreated_topic_keeps_its_records_through_a_crash(tmp_path: Path, is_restarted_between: bool) -> None:
    broker = start(tmp_path)
    await create(broker, "t", 2)
    for index in range(2):
        for _ in range(3):
            await produce(broker, broker.partition("t", index), batch_of(*[b"old"] * 10))
        await run(broker.delete_records("t", index, 25))
    await run(broker.housekeeping.checkpoint())
    await broker.topics.delete("t")
    if is_restarted_between:
        await crash(broker)
        broker = start(tmp_path)

    await create(broker, "t")
    await broker.topics.add_partitions("t", 2)
    for index in range(2):
        await produce(broker, broker.partition("t", index), batch_of(b"new", b"newer"))
    await crash(broker)

    async with running(tmp_path) as broker:
        assert [readable(broker.partition("t", index)) for index in range(2)] == [[b"new", b"newer"]] * 2


async def test_a_checkpoint_written_while_its_topic_is_replaced_does_not_apply_to_the_new_topic(
    tmp_path: Path,
) -> None:
    class SlowDisk(Disk):
        """Delays a checkpoint until the new topic is created, up to a time limit."""

        is_slow = False

        def __init__(self) -> None:
            self.begun, self.made = threading.Event(), threading.Event()

        def rename(self, source: Path, target: Path) -> None:
            if target.name == START_OFFSETS and self.is_slow:
                self.is_slow = False
                self.begun.set()
                self.made.wait(0.3)
            super().rename(source, target)

        def make_directory(self, path: Path) -> None:
            super().make_directory(path)
            self.made.set()

    disk = SlowDisk()
    broker = start(tmp_path, disk=disk)
    partition = await create(broker, "t")
    await produce(broker, partition, batch_of(b"old", b"older", b"oldest"))
    await run(broker.delete_records("t", 0, 2))
    disk.made.clear()
    disk.is_slow = True
    checkpoint = asyncio.create_task(broker.partitions.checkpoint_start_offsets())
    await asyncio.to_thread(disk.begun.wait, 20)

    await broker.topics.delete("t")
    await produce(broker, await create(broker, "t"), batch_of(b"new", b"newer", b"newest"))
    await run(checkpoint)
    await crash(broker)

    async with running(tmp_path) as broker:
        assert readable(broker.partition("t", 0)) == [b"new", b"newer", b"newest"]


async def test_a_topic_with_the_longest_name_can_be_deleted(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await create(broker, "x" * 249, 2)
        await broker.topics.delete("x" * 249)
        assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [CATALOG]
    (tmp_path / ("x" * 249 + "-0")).mkdir()
    (tmp_path / ("x" * 249 + "-0") / "partition.metadata").touch()
    async with running(tmp_path) as broker:
        assert len(list(tmp_path.glob("x*-stray"))) == 1


async def test_a_directory_that_cannot_be_removed_prevents_neither_deletion_nor_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class StubbornDisk(Disk):
        def rename(self, source: Path, target: Path) -> None:
            if source.name == "t-0":
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
            super().rename(source, target)

    disk = StubbornDisk()
    async with running(tmp_path, disk=disk) as broker:
        await create(broker, "t", 2)
        await broker.topics.delete("t")
        assert "directory of t-0 cannot be removed" in caplog.text
        assert not (tmp_path / "t-1").exists(), "the others are"
    async with running(tmp_path, disk=disk) as broker:
        assert "it cannot be renamed" in caplog.text
        with pytest.raises(Refusal) as refused:
            await create(broker, "t")
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    async with running(tmp_path) as broker:
        await create(broker, "t")


# -- the catalog


def topic_directories(path: Path) -> list[str]:
    return sorted(one.name for one in path.iterdir() if one.is_dir() and one.name != CATALOG)


@pytest.mark.parametrize("is_owner_known", [True, False])
async def test_without_its_catalog_a_broker_does_not_start(tmp_path: Path, is_owner_known: bool) -> None:
    async with running(tmp_path) as broker:
        await produce(broker, await create(broker, "t"), batch_of(b"v"))
    (tmp_path / CATALOG).rename(tmp_path.parent / "lost")
    if not is_owner_known:
        (tmp_path / "meta.properties").unlink()
    for _ in range(2):
        with pytest.raises(DamagedCatalog, match=f"restore .*{CATALOG}"):
            start(tmp_path)
        assert topic_directories(tmp_path) == ["t-0"], "nothing was set aside"

    (tmp_path.parent / "lost").rename(tmp_path / CATALOG)
    async with running(tmp_path) as broker:
        assert readable(broker.partition("t", 0)) == [b"v"]


async def test_a_catalog_that_lost_flushed_records_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await create(broker, "t")
    for path in (tmp_path / CATALOG).iterdir():
        path.unlink()
    for _ in range(2):
        with pytest.raises(DamagedCatalog, match="ends at offset 0"):
            start(tmp_path)
    assert topic_directories(tmp_path) == ["t-0"]


@pytest.mark.parametrize("is_catalog_begun", [True, False])
async def test_an_interrupted_first_start_is_repeated(tmp_path: Path, is_catalog_begun: bool) -> None:
    DataDirectory(tmp_path, 1).release()
    if is_catalog_begun:
        (tmp_path / CATALOG).mkdir()
    async with running(tmp_path) as broker:
        await create(broker, "t")
        cluster_id = broker.cluster_id
    async with running(tmp_path) as broker:
        assert broker.cluster_id == cluster_id
        assert broker.topics.find("t") is not None


@pytest.mark.parametrize("damaged", [b"topic/bad", b'"partitions"'])
@pytest.mark.parametrize("is_clean", [True, False])
async def test_a_flipped_bit_in_the_catalog_is_found_and_named(tmp_path: Path, damaged: bytes, is_clean: bool) -> None:
    async with running(tmp_path) as broker:
        await create(broker, "good")
        await create(broker, "bad")
    if not is_clean:
        (tmp_path / ".kafka_cleanshutdown").unlink()
    path = tmp_path / CATALOG / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    data[data.rindex(damaged) + 8] ^= 1
    path.write_bytes(data)

    with pytest.raises((DamagedState, DamagedCatalog), match=CATALOG):
        start(tmp_path)
    assert topic_directories(tmp_path) == ["bad-0", "good-0"]


async def test_foreign_and_damaged_directories_do_not_affect_other_partitions(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        for name in ("good", "bad"):
            await produce(broker, await create(broker, name), batch_of(b"v"))
    shutil.copytree(tmp_path / "bad-0", tmp_path / "backup-01")
    (tmp_path / "bad-0").rename(tmp_path / "moved-missing")
    (tmp_path / "bad-0").write_text("a file where a directory should be")
    (tmp_path / "note-delete").write_text("mine")
    for _ in range(2):
        async with running(tmp_path) as broker:
            with pytest.raises(Refusal) as offline:
                stage(broker, broker.partition("bad", 0), batch_of(b"v"))
            assert offline.value.code is ErrorCode.KAFKA_STORAGE_ERROR
            assert readable(broker.partition("good", 0)) == [b"v"]
    for kept in ("backup-01", "moved-missing", "bad-0", "note-delete"):
        assert (tmp_path / kept).exists()
    async with running(tmp_path) as broker:
        await broker.topics.delete("bad")
        await produce(broker, await create(broker, "bad"), batch_of(b"v"))
        (aside,) = tmp_path.glob("bad-0.*-stray")
        assert aside.read_text().startswith("a file")
