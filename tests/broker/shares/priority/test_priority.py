"""Share groups are given the records of a topic with priorities by weight, in every order of events."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from headwater.broker.broker import Broker
from headwater.clock import ManualClock
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.compression import Codec
from headwater.protocol.batches.directives import PRIORITY
from headwater.protocol.batches.records import Record
from tests.broker.shares.dead_letter_cases import configure
from tests.broker.shares.share_commands import ACCEPT, BOB, RELEASE, SETTINGS, Shared, loaded
from tests.support.broker.embedded_broker import NOW_MS, create, produce, running, start

WEIGHTS = (50, 25, 15, 7, 3)


def batch(*lanes: int | None, codec: int = Codec.NONE, value: bytes = b"v") -> bytes:
    """One record for each lane; None names none."""
    records = [
        Record(index, NOW_MS, b"k", value, () if lane is None else ((PRIORITY, b"%d" % lane),))
        for index, lane in enumerate(lanes)
    ]
    return bytes(batches.build(records, codec=codec))


async def queue(broker: Broker, **overrides: str) -> Shared:
    found = Shared(broker, await create(broker, "jobs", 1, headwater_priority_enable="true", **overrides))
    await configure(broker)
    await found.join()
    return found


async def put(found: Shared, *lanes: int | None, codec: int = Codec.NONE) -> None:
    appended = await produce(found.broker, found.partition, batch(*lanes, codec=codec))
    assert appended.error is None, appended.error


async def taken(found: Shared, count: int, *, at_once: int = 1) -> list[int]:
    """The next offsets that the group is given, each accepted at once."""
    offsets: list[int] = []
    while len(offsets) < count:
        for first, last, _ in await found.fetched(records_max=at_once, wait_ms=2000):
            await found.acknowledge(first, last, ACCEPT)
            offsets += range(first, last + 1)
    return offsets


async def test_the_most_urgent_record_comes_first_wherever_it_is(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        jobs = await queue(broker)
        await put(jobs, 4, None, 3)
        await put(jobs, 2, 0)
        await put(jobs, 1)
        assert await taken(jobs, 6) == [4, 5, 1, 3, 2, 0]


@pytest.mark.parametrize("at_once", [1, 7, 500])
async def test_lanes_share_by_weight_while_all_are_full(tmp_path: Path, at_once: int) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        jobs = await queue(broker)
        lanes = [number % 5 for number in range(1500)]
        for first in range(0, 1500, 100):
            await put(jobs, *lanes[first : first + 100])
        got = Counter(lanes[offset] for offset in (await taken(jobs, 500, at_once=at_once))[:500])
        assert [got[lane] for lane in range(5)] == [5 * weight for weight in WEIGHTS]
