"""DescribeLogDirs (key 35): how much each partition takes, and how much room is left."""

from collections.abc import Mapping, Sequence

from headwater.broker.partition import Partition
from headwater.ids import TopicName
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.topics.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

REQUEST = DescribeLogDirsRequest


def handle(request: DescribeLogDirsRequest, context: Context) -> DescribeLogDirsResponse:
    all_partitions = context.broker.catalog.partitions
    chosen: Mapping[TopicName, Sequence[Partition]] = all_partitions
    if request.topics is not None:
        wanted = {TopicName(topic.topic): set(topic.partitions) for topic in request.topics}
        chosen = {
            name: [one for one in all_partitions.get(name, ()) if one.id.partition in indexes]
            for name, indexes in wanted.items()
        }
    total_bytes, usable_bytes = context.broker.data.volume_bytes()
    return DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResult(
                log_dir=str(context.broker.data.root),
                topics=[
                    DescribeLogDirsTopic(name=name, partitions=[_size(one) for one in partitions])
                    for name, partitions in chosen.items()
                    if partitions
                ],
                total_bytes=total_bytes,
                usable_bytes=usable_bytes,
            )
        ]
    )


def _size(partition: Partition) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(
        partition_index=partition.id.partition, partition_size=partition.log.size_bytes, offset_lag=0
    )
