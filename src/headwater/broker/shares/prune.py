"""Deletes what newer snapshots have replaced in the logs of share-partitions, so that a start reads little."""

import logging
from collections.abc import Awaitable, Callable

from headwater.broker.catalog.hosted_partitions import HostedPartitions
from headwater.broker.shares.coordinator import ShareCoordinator
from headwater.coordination.catalog.topic_names import SHARE_STATE_TOPIC
from headwater.errors import HeadwaterError
from headwater.storage.cleaning.garbage import Garbage

logger = logging.getLogger(__name__)

# A log is pruned when it has this many records, and some for each share-partition that it is about.
PRUNE_RECORDS_MIN = 1000
PRUNE_RECORDS_EACH = 4


async def prune(
    shares: ShareCoordinator, partitions: HostedPartitions, collect: Callable[[Garbage], Awaitable[None]]
) -> None:
    """Delete what newer snapshots have replaced, so that a start reads little. Each log of some length gets a
    snapshot of every share-partition; everything before them goes once they are on disk."""
    for shard, partition in zip(shares.shards, partitions.by_topic.get(SHARE_STATE_TOPIC, ()), strict=False):
        machine = shard.machine
        end_offset = partition.end_offset
        if machine is None:
            continue
        needed = PRUNE_RECORDS_MIN + PRUNE_RECORDS_EACH * len(machine.partitions)
        if end_offset - partition.start_offset <= needed:
            continue
        outcome = await shard.submit(lambda machine, _, now: machine.decide_snapshots(now)).wait()
        if isinstance(outcome, HeadwaterError):
            logger.error("%s is not pruned now: %s", partition.id, outcome)
            continue
        await collect(partition.advance_start(end_offset))
        await partitions.checkpoint_start_offsets()
