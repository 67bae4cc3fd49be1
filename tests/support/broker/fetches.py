"""Fetches from a broker without listeners, in one line each."""

import asyncio
from typing import Any

from headwater.broker.broker import Broker
from headwater.broker.partition import Partition
from headwater.broker.reads.fetch import Fetch, PartitionFetch, PartitionRead
from tests.support.broker.embedded_broker import TIMEOUT_S

LONG_MS = 600_000


def fetch(
    broker: Broker, *asked: tuple[Partition, int], bytes_min: int = 1, wait_ms: int = LONG_MS, **options: Any
) -> Fetch:
    values: dict[str, Any] = {"bytes_max": 1 << 20, "committed_only": False, **options}
    fetches = [PartitionFetch(partition, offset, 1 << 20) for partition, offset in asked]
    return broker.fetch(fetches, bytes_min=bytes_min, wait_ms=wait_ms, **values)


async def outcome(pending: Fetch) -> list[PartitionRead]:
    return await asyncio.wait_for(pending.wait(), TIMEOUT_S)
