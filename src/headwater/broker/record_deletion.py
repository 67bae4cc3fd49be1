"""Deletion of a partition's oldest records, as far as a client asks for it."""

from headwater.broker.catalog.hosted_partitions import HostedPartitions
from headwater.broker.housekeeping import Housekeeping
from headwater.broker.partition import Partition
from headwater.broker.topics import internal_topic
from headwater.errors import ErrorCode, Refusal


async def delete_records(
    partition: Partition, offset: int, housekeeping: Housekeeping, partitions: HostedPartitions
) -> int:
    """Move the log's start up to `offset` (-1: the high watermark); gives the new start."""
    topic = partition.id.topic
    if partition.is_internal:
        raise internal_topic(topic)
    partition.check_online()
    if not partition.config.is_deleted_by_retention:
        raise Refusal(
            ErrorCode.POLICY_VIOLATION,
            f"records of '{topic}' cannot be deleted: its cleanup.policy does not contain 'delete'",
        )
    target = partition.high_watermark if offset == -1 else offset
    if not 0 <= target <= partition.high_watermark:
        raise Refusal(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{partition.id} has offsets {partition.start_offset} to {partition.high_watermark}, not {target}",
        )
    garbage = partition.advance_start(max(target, partition.start_offset))
    try:
        await housekeeping.collect(garbage)
        await partitions.checkpoint_start_offsets()
    except OSError as error:
        raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"deletion from {partition.id} failed: {error}") from error
    return partition.start_offset
