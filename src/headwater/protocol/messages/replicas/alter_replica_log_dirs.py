"""AlterReplicaLogDirs (key 34), v1-2: v2 is flexible."""

from headwater.protocol.wire.codec import Request, Response, Struct, int16, int32


class AlterReplicaLogDirTopic(Struct):
    name: str
    partitions: list[int32]


class AlterReplicaLogDir(Struct):
    path: str
    topics: list[AlterReplicaLogDirTopic]


class AlterReplicaLogDirsRequest(Request, key=34, versions="1-2", flexible="2+"):
    dirs: list[AlterReplicaLogDir]


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: int32
    error_code: int16 = 0


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: str
    partitions: list[AlterReplicaLogDirPartitionResult]


class AlterReplicaLogDirsResponse(Response, key=34, versions="1-2", flexible="2+"):
    throttle_time_ms: int32 = 0
    results: list[AlterReplicaLogDirTopicResult]
