"""DescribeLogDirs (key 35), v1-4: the size of each partition, and the room that is left on the volume.

v2 is flexible, v3 adds an error for the whole, v4 the sizes of the volume."""

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
from headwater.security.acl import CLUSTER, Operation

REQUEST = DescribeLogDirsRequest


def handle(request: DescribeLogDirsRequest, context: Context) -> DescribeLogDirsResponse:
    broker = context.broker
    denial = context.guard.denial(Operation.DESCRIBE, CLUSTER)
    if denial is not None:
        return DescribeLogDirsResponse(error_code=denial.code, results=[])
    if request.topics is None:
        chosen = {topic.name: broker.hosted(topic.name) for topic in broker.topics.all()}
    else:
        wanted = {TopicName(topic.topic): set(topic.partitions) for topic in request.topics}
        chosen = {
            name: [each for each in broker.hosted(name) if each.id.partition in indexes]
            for name, indexes in wanted.items()
        }
    directory = broker.log_directory()
    return DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResult(
                log_dir=directory.path,
                topics=[
                    DescribeLogDirsTopic(name=name, partitions=[_size(each) for each in partitions])
                    for name, partitions in chosen.items()
                    if partitions
                ],
                total_bytes=directory.total_bytes,
                usable_bytes=directory.usable_bytes,
            )
        ]
    )


def _size(partition: Partition) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(
        partition_index=partition.id.partition, partition_size=partition.size_bytes, offset_lag=0
    )
