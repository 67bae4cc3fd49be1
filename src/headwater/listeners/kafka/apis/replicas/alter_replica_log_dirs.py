"""AlterReplicaLogDirs (key 34), v1-2: moves replicas to other data directories of this node, which has only one.

v2 is flexible."""

from headwater.errors import ErrorCode, HeadwaterError
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.replicas.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from headwater.security.acl import CLUSTER, Operation

REQUEST = AlterReplicaLogDirsRequest


def handle(request: AlterReplicaLogDirsRequest, context: Context) -> AlterReplicaLogDirsResponse:
    denial = context.guard.denial(Operation.ALTER, CLUSTER)
    # As in Kafka, the last directory that is named for a partition counts.
    directories: dict[str, dict[int, str]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            directories.setdefault(topic.name, {}).update(dict.fromkeys(topic.partitions, directory.path))
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=name,
                partitions=[
                    AlterReplicaLogDirPartitionResult(
                        partition_index=index,
                        error_code=_move(name, index, path, context) if denial is None else denial.code,
                    )
                    for index, path in paths.items()
                ],
            )
            for name, paths in directories.items()
        ]
    )


def _move(topic: str, index: int, directory: str, context: Context) -> ErrorCode:
    try:
        context.broker.replicas.move(topic, index, directory)
    except HeadwaterError as refusal:
        return refusal.code
    return ErrorCode.NONE
