"""How a log comes about: created, opened, or out of service because its files cannot be used."""

import logging
from collections.abc import Callable
from pathlib import Path

from headwater.config.topic import TopicConfig
from headwater.ids import TopicId
from headwater.storage import checkpoints, names
from headwater.storage.disk import Disk
from headwater.storage.epochs import EpochStart, LeaderEpochs
from headwater.storage.log import Log
from headwater.storage.producers.snapshot_files import SnapshotFiles
from headwater.storage.recovery.loader import Loader
from headwater.storage.recovery.log_contents import LogContents, new_segment
from headwater.storage.segment import Segment

logger = logging.getLogger(__name__)


def create_log(disk: Disk, directory: Path, config: TopicConfig, *, topic_id: TopicId, now_ms: int) -> Log:
    """Not durable before `Log.sync_creation`."""
    disk.make_directory(directory)
    epochs = LeaderEpochs([EpochStart(0, 0)])
    disk.write_file(directory / names.PARTITION_METADATA, checkpoints.partition_metadata(topic_id))
    disk.write_file(directory / names.LEADER_EPOCHS, epochs.encode())
    active = new_segment(disk, directory, 0, config, now_ms=now_ms, report=logger.warning)
    unsynced = [directory, directory.parent]
    contents = LogContents([active], SnapshotFiles(disk, directory), epochs=epochs, directories_unsynced=unsynced)
    return Log(disk, directory, config, contents, logger.warning)


def open_log(
    disk: Disk,
    directory: Path,
    config: TopicConfig,
    *,
    clean: bool,
    recovery_point: int,
    start_offset: int,
    now_ms: int,
    report: Callable[[str], None],
) -> Log:
    """`clean`: the log was closed, and `recovery_point` is its end; no record is read. Otherwise everything behind the
    recovery point is verified, cut at the first batch that is not whole, and flushed before anybody reads it."""
    loader = Loader(disk, directory, config, now_ms, report)
    contents = loader.load(clean=clean, recovery_point=recovery_point, start_offset=start_offset)
    log = Log(disk, directory, config, contents, report)
    for segment in contents.segments:
        segment.mark_unverified()
    if log.is_recovered:
        log.flush(with_active_indexes=False)
    return log


def offline_log(
    disk: Disk, directory: Path, config: TopicConfig, *, start_offset: int, flushed_offset: int, reason: str
) -> Log:
    """In place of a log that cannot be opened. It touches no file, and keeps the offsets that checkpoints name."""
    segment = Segment(disk, directory, 0, now_ms=0, interval_bytes=config.index_interval_bytes, report=lambda _: None)
    snapshots = SnapshotFiles(disk, directory)
    contents = LogContents([segment], snapshots, start_offset=start_offset, flushed_offset=flushed_offset)
    log = Log(disk, directory, config, contents, logger.warning)
    log.fail(reason)
    return log
