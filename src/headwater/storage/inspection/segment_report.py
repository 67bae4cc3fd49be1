"""Reads a segment that may be damaged and reports its batches and what is wrong with them. Changes nothing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import HeadwaterError
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.batch import HEADER_SIZE, BatchHeader
from headwater.protocol.batches.records import Record
from headwater.storage import names
from headwater.storage.disk import Disk, File
from headwater.storage.index import DamagedIndex, OffsetIndex, TimeIndex
from headwater.storage.lanes.lane_table import LaneTable
from headwater.storage.producers.transaction_index import AbortedTransaction, TransactionIndex, decode
from headwater.storage.recovery.scan import DECOMPRESSED_BYTES_MAX


@dataclass(frozen=True, slots=True)
class BatchReport:
    """One batch; or the bytes at the end that are no batch, without a header."""

    position: int
    size: int
    header: BatchHeader | None
    problems: Sequence[str] = ()
    records: Sequence[Record] = ()


def inspect_segment(
    disk: Disk, path: Path, *, with_records: bool = False, limit_offset: int | None = None, synced_offset: int = 0
) -> Iterator[BatchReport]:
    """Goes on after a batch with a wrong checksum, and stops where the length of a batch is impossible. All offsets
    must be below `limit_offset`, where the next segment begins. The log once ended at `synced_offset`, so no batch
    crosses it; 0 where compaction may have been."""
    file = disk.open(path)
    end = file.size()
    position, next_offset = 0, names.offset_of(path.name, names.LOG) or 0
    while position < end:
        report = _inspect_batch(file, position, end, next_offset, limit_offset, synced_offset, with_records)
        yield report
        if report.header is None:
            return
        position += report.size
        # A checksum does not cover the offset: a damaged batch may have a wrong one.
        if not report.problems:
            next_offset = report.header.next_offset


def _inspect_batch(
    file: File,
    position: int,
    end: int,
    next_offset: int,
    limit_offset: int | None,
    synced_offset: int,
    with_records: bool,
) -> BatchReport:
    left = end - position
    if left < HEADER_SIZE:
        return BatchReport(position, left, None, [f"{left} bytes are left, too few for a batch"])
    header = batches.read_header(file.pread(HEADER_SIZE, position))
    if not HEADER_SIZE <= header.size <= left or header.magic != batches.MAGIC:
        problem = f"no batch: its size would be {header.size} of the {left} bytes left, its magic {header.magic}"
        return BatchReport(position, left, None, [problem])
    data = file.pread(header.size, position)
    problems: list[str] = []
    records: Sequence[Record] = ()
    if header.base_offset < next_offset:
        problems.append(f"offset {header.base_offset} where {next_offset} or later is due")
    if limit_offset is not None and header.last_offset >= limit_offset:
        problems.append(f"offset {header.last_offset} where the next segment begins at {limit_offset}")
    if next_offset < synced_offset < header.next_offset:
        problems.append(f"offset {header.last_offset}, and the log once ended at {synced_offset}")
    try:
        batches.verify(data, header)
        if with_records:
            records = batches.read_records(data, header, DECOMPRESSED_BYTES_MAX)
    except HeadwaterError as error:
        problems.append(str(error))
    return BatchReport(position, header.size, header, problems, records)


def inspect_indexes(disk: Disk, path: Path) -> Iterator[str]:
    """The problems of the indexes of a segment, which is given by its `.log` file."""
    base_offset = names.offset_of(path.name, names.LOG) or 0
    offset_index = OffsetIndex(disk, path.with_suffix(names.OFFSET_INDEX), base_offset, is_new=False)
    time_index = TimeIndex(disk, path.with_suffix(names.TIME_INDEX), base_offset, is_new=False)
    found = {report.position: report.header for report in inspect_segment(disk, path) if report.header is not None}
    timestamps = {header.last_offset: header.max_timestamp for header in found.values()}
    for index in (offset_index, time_index):
        try:
            if not index.is_ascending():
                yield f"{index.path.name} is not in ascending order"
        except DamagedIndex as damage:
            yield str(damage)
            return
    for number in range(len(offset_index)):
        offset, position = offset_index.at(number)
        header = found.get(position)
        if header is None or header.last_offset != offset:
            yield f"{offset_index.path.name}: no batch at position {position} ends with offset {offset}"
    for number in range(len(time_index)):
        timestamp, offset = time_index.at(number)
        if timestamps.get(offset) != timestamp:
            yield f"{time_index.path.name}: no batch ends with offset {offset} and has timestamp {timestamp}"


def inspect_aborted(disk: Disk, path: Path) -> tuple[Sequence[AbortedTransaction], Sequence[str]]:
    """The aborted transactions of a segment, which is given by its `.log` file, and the problems of their index."""
    base_offset = names.offset_of(path.name, names.LOG) or 0
    index = TransactionIndex(disk, path.with_suffix(names.TRANSACTION_INDEX), base_offset, is_new=False)
    try:
        aborted = decode(index.entries)
    except DamagedIndex as damage:
        return (), [str(damage)]
    if not aborted:
        return (), ()
    headers = (report.header for report in inspect_segment(disk, path))
    markers = {header.base_offset for header in headers if header is not None and header.is_control}
    return aborted, [
        f"{index.path.name}: no marker at offset {one.last_offset}" for one in aborted if one.last_offset not in markers
    ]


def inspect_lanes(disk: Disk, path: Path) -> Sequence[str]:
    """The problems of the priorities of a segment, which is given by its `.log` file. Most segments have none."""
    lanes = path.with_suffix(names.LANE_INDEX)
    try:
        LaneTable.decode(disk.read_file(lanes), names.offset_of(path.name, names.LOG) or 0)
    except FileNotFoundError:
        return ()
    except DamagedIndex as damage:
        return [f"{lanes.name}: {damage}"]
    return ()
