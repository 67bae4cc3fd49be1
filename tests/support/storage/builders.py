"""Batches and logs for the storage tests, in one line each."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from headwater.config.topic import TopicConfig
from headwater.ids import TopicId
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.batch import BatchHeader
from headwater.protocol.batches.records import Record
from headwater.storage.disk import Disk, File
from headwater.storage.log import Log
from headwater.storage.log_factory import create_log, open_log

TOPIC_ID = TopicId(UUID(int=42))
NOW_MS = 1_700_000_000_000
Staged = tuple[BatchHeader, bytearray]


class QuickFile(File):
    def sync_data(self) -> None:
        """Skips the sync: most tests cut no power."""


class QuickDisk(Disk):
    file_type = QuickFile

    def sync_directory(self, path: Path) -> None:
        self.list(path)


def settings(**changes: Any) -> TopicConfig:
    """Log settings; by default a segment holds about ten small batches."""
    return dataclasses.replace(TopicConfig(), **{"segment_bytes": 1024, "index_interval_bytes": 150, **changes})


def record(offset: int, key: bytes | None = None, value: bytes | None = b"v", timestamp: int = NOW_MS) -> Record:
    return Record(offset, timestamp, key, value)


def staged(records: Sequence[Record], **options: Any) -> Staged:
    options = {"base_offset": records[0].offset, "leader_epoch": 0, **options}
    data = batches.build(records, **options)
    return batches.read_header(data), data


def numbered(offset: int, count: int = 1, *, timestamp: int = NOW_MS, **options: Any) -> Staged:
    """A batch whose record values are their expected offsets."""
    return staged(
        [record(offset + n, b"k%d" % (offset + n), b"%d" % (offset + n), timestamp) for n in range(count)], **options
    )


def produced(offset: int, sequence: int, *, producer_id: int = 7, epoch: int = 0, count: int = 1) -> Staged:
    return numbered(offset, count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def create(path: Path, config: TopicConfig | None = None, disk: Disk | None = None) -> Log:
    return create_log(disk or QuickDisk(), path / "orders-0", config or settings(), topic_id=TOPIC_ID, now_ms=NOW_MS)


def reopen(
    log: Log,
    *,
    clean: bool = False,
    recovery_point: int | None = None,
    start_offset: int | None = None,
    disk: Disk | None = None,
    reports: list[str] | None = None,
) -> Log:
    return open_log(
        disk or QuickDisk(),
        log.directory,
        log.config,
        clean=clean,
        recovery_point=log.flushed_offset if recovery_point is None else recovery_point,
        start_offset=log.start_offset if start_offset is None else start_offset,
        now_ms=NOW_MS,
        report=(reports if reports is not None else []).append,
    )


def fill(log: Log, count: int, **options: Any) -> None:
    """Appends one-record batches whose values are their offsets."""
    for _ in range(count):
        log.append([numbered(log.end_offset, **options)], NOW_MS)


def flush(log: Log) -> None:
    task = log.flush_task()
    if task is not None:
        task.run()
        log.flushed(task)


def contents(log: Log, *, bytes_max: int = 1 << 20) -> list[Record]:
    """Every record of the log; verifies each batch."""
    found: list[Record] = []
    offset = log.start_offset
    while offset < log.end_offset:
        data = log.read(offset, bytes_max, limit_offset=log.end_offset, first_batch_whole=True).read()
        if not data:
            break
        for header, batch in batches.iterate(data):
            batches.verify(batch, header)
            found += [r for r in batches.read_records(batch, header, 1 << 26) if r.offset >= log.start_offset]
            offset = header.next_offset
    return found


def offsets(log: Log) -> list[int]:
    return [found.offset for found in contents(log)]


def names_in(log: Log, suffix: str = "") -> list[str]:
    return sorted(path.name for path in log.directory.iterdir() if path.name.endswith(suffix))
