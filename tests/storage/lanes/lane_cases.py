"""Logs whose records have priorities, and their lanes: as the index has them, and as the records say."""

from collections.abc import Sequence
from typing import Any

from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.directives import PRIORITY, PRIORITY_NORMAL, priority_of
from headwater.protocol.batches.records import Record
from headwater.storage.lanes.lane_task import LaneTask
from headwater.storage.lanes.log_lanes import LogLanes
from headwater.storage.log import Log
from headwater.storage.recovery import scan
from tests.support.storage.builders import NOW_MS, Staged, staged


def prioritized(offset: int, *lanes: int | None, key: bytes = b"k", **options: Any) -> Staged:
    """A batch with one record for each lane; None names none."""
    records = [
        Record(offset + at, NOW_MS, key, b"v", () if lane is None else ((PRIORITY, b"%d" % lane),))
        for at, lane in enumerate(lanes)
    ]
    return staged(records, **options)


def append(log: Log, *lanes: int | None, **options: Any) -> None:
    log.append([prioritized(log.end_offset, *lanes, **options)], NOW_MS)


def known_lanes(log: Log, reports: list[str] | None = None) -> LogLanes:
    """All lanes, found out as a broker does, with all files written that are due."""
    lanes = LogLanes(log, [].append if reports is None else reports.append)
    find_out(log, lanes)
    return lanes


def find_out(log: Log, lanes: LogLanes) -> list[LaneTask]:
    lanes.refresh()
    tasks: list[LaneTask] = []
    while (task := lanes.plan(log.start_offset)) is not None:
        tasks.append(task)
        task.run()
        lanes.install(task)
    while (file_task := lanes.plan_file()) is not None:
        file_task.run()
        lanes.install_file(file_task)
    return tasks


def shown(log: Log, lanes: LogLanes) -> dict[int, int]:
    """The lane of every offset, by the index. None is in two."""
    found: dict[int, int] = {}
    for lane in range(5):
        for first, last in lanes.within(lane, log.start_offset, log.end_offset):
            for offset in range(first, last + 1):
                assert offset not in found
                found[offset] = lane
    return found


def check(log: Log, lanes: LogLanes) -> None:
    """The index has every offset, and each record in the lane of its header."""
    found = shown(log, lanes)
    assert sorted(found) == [*range(log.start_offset, log.end_offset)]
    assert lanes.known_end(log.start_offset) == log.end_offset
    for offset, lane in written(log).items():
        assert found[offset] == lane, offset


def written(log: Log) -> dict[int, int]:
    """The lane of every record, by its header."""
    found: dict[int, int] = {}
    for segment in log.segments:
        for position, header in scan.headers(segment.file, 0, segment.size):
            if not header.is_control:
                data = segment.file.pread(header.size, position)
                for record in batches.read_records(data, header, 1 << 20):
                    if record.offset >= log.start_offset:
                        found[record.offset] = priority_of(record.headers)
    return found


def expanded(first: int, lanes: Sequence[int | None]) -> dict[int, int]:
    return {first + at: PRIORITY_NORMAL if lane is None else lane for at, lane in enumerate(lanes)}
