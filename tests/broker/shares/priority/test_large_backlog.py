"""A million records of all priorities: their lanes are found out once, and a fetch costs what it gives."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwater.broker.broker import Broker
from headwater.broker.partition import Partition
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.directives import PRIORITY
from headwater.protocol.batches.records import Record
from headwater.storage.lanes.lane_task import LaneTask
from headwater.storage.lanes.log_lanes import LogLanes
from tests.broker.shares.priority.priority_cases import WEIGHTS, counts, queue
from tests.broker.shares.share_commands import ACCEPT, SETTINGS, Shared, loaded
from tests.support.broker.embedded_broker import NOW_MS, produce, start

pytestmark = pytest.mark.slow

COUNT = 1_000_000
BATCH = 1000
TAKEN = 10_000


def lane_of(offset: int) -> int:
    """Neighbours are in different lanes."""
    return offset * 7 % 5


async def fill(jobs: Shared) -> None:
    headers = [((PRIORITY, b"%d" % lane),) for lane in range(5)]
    for first in range(0, COUNT, BATCH):
        records = [
            Record(at, NOW_MS, None, b"%07d" % (first + at), headers[lane_of(first + at)]) for at in range(BATCH)
        ]
        appended = await produce(jobs.broker, jobs.partition, bytes(batches.build(records)))
        assert appended.error is None


async def take(jobs: Shared, count: int) -> list[int]:
    offsets: list[int] = []
    while len(offsets) < count:
        for first, last, _ in await jobs.fetched(records_max=500, wait_ms=60_000, bytes_max=50 << 20):
            await jobs.acknowledge(first, last, ACCEPT)
            offsets += range(first, last + 1)
    return offsets


def counted(patch: pytest.MonkeyPatch, owner: type, name: str) -> list[int]:
    calls = [0]
    right: Callable[..., Any] = getattr(owner, name)

    def count(*arguments: Any, **options: Any) -> Any:
        calls[0] += 1
        return right(*arguments, **options)

    patch.setattr(owner, name, count)
    return calls


async def test_a_backlog_of_a_million_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker: Broker = start(tmp_path, SETTINGS)
    jobs = await queue(broker, segment_bytes=str(16 << 20))
    await fill(jobs)
    scans = counted(monkeypatch, LaneTask, "run")
    first = await take(jobs, 500)
    assert scans[0] == len(jobs.partition._log.segments) > 2, "each segment is read once"
    tables = [*broker.shares.priorities._lanes_of(jobs.partition).lanes._tables.values()]
    assert sum(table.range_count for table in tables) == COUNT
    assert all(isinstance(table.lasts[0], memoryview) for table in tables[:-1]), "not in memory"
    looks = counted(monkeypatch, LogLanes, "next_range")
    reads = counted(monkeypatch, Partition, "read")
    got = await take(jobs, TAKEN)
    assert counts([lane_of(offset) for offset in got]) == [weight * TAKEN // 100 for weight in WEIGHTS]
    assert scans[0] == len(jobs.partition._log.segments), "a fetch reads no records that it does not give"
    assert looks[0] < 4 * TAKEN
    assert reads[0] < TAKEN

    await broker.stop()
    broker = start(tmp_path, SETTINGS)
    jobs = await loaded(broker, jobs)
    try:
        again = await take(jobs, 1000)
        shares = [100 * count / len(again) for count in counts([lane_of(offset) for offset in again])]
        assert shares == pytest.approx(WEIGHTS, abs=5)
        assert not {*again} & {*got, *first}
        assert max(offset for offset in again if lane_of(offset) == 0) > 2 * TAKEN
    finally:
        await broker.stop()
