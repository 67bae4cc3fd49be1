"""Topics with priorities, and a share group that is given their records."""

from collections.abc import Sequence

from headwater.broker.broker import Broker
from headwater.ids import MemberId
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.compression import Codec
from headwater.protocol.batches.directives import PRIORITY, priority_of
from headwater.protocol.batches.records import Headers, Record
from tests.broker.shares.dead_letter_cases import configure, records_of
from tests.broker.shares.share_commands import ACCEPT, ANN, Shared
from tests.support.broker.embedded_broker import NOW_MS, create, produce

WEIGHTS = (50, 25, 15, 7, 3)


def headers(lane: int | None) -> Headers:
    return () if lane is None else ((PRIORITY, b"%d" % lane),)


def batch(*lanes: int | None, codec: int = Codec.NONE, value: bytes = b"v", key: bytes = b"k") -> bytes:
    """One record for each lane; None names none."""
    records = [Record(index, NOW_MS, key, value, headers(lane)) for index, lane in enumerate(lanes)]
    return bytes(batches.build(records, codec=codec))


async def queue(broker: Broker, **overrides: str) -> Shared:
    settings = {"headwater_priority_enable": "true", **overrides}
    found = Shared(broker, await create(broker, "jobs", 1, **settings))
    await configure(broker)
    await found.join()
    return found


async def put(
    found: Shared, *lanes: int | None, codec: int = Codec.NONE, value: bytes = b"v", key: bytes = b"k"
) -> None:
    appended = await produce(found.broker, found.partition, batch(*lanes, codec=codec, value=value, key=key))
    assert appended.error is None, appended.error


async def taken(
    found: Shared, count: int, *, at_once: int = 1, member_id: MemberId = ANN, committed_only: bool = False
) -> list[int]:
    """The next offsets that the group is given, each accepted at once."""
    offsets: list[int] = []
    while len(offsets) < count:
        ranges = await found.fetched(member_id, records_max=at_once, committed_only=committed_only)
        assert ranges, f"only {offsets} came"
        for first, last, _ in ranges:
            await found.acknowledge(first, last, ACCEPT, member_id)
            offsets += range(first, last + 1)
    return offsets


def lanes_in(found: Shared) -> dict[int, int]:
    """The lanes of all records in the log, by their headers."""
    return {record.offset: priority_of(record.headers) for record in records_of(found.partition)}


def counts(lanes: Sequence[int]) -> list[int]:
    return [lanes.count(lane) for lane in range(5)]
