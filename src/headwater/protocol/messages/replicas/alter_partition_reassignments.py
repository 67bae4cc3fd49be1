"""AlterPartitionReassignments (key 45), v0-1, all flexible: v1 lets the client forbid a new replication factor."""

from headwater.protocol.wire.codec import Request, Response, Struct, field, int16, int32


class ReassignablePartition(Struct):
    partition_index: int32
    replicas: list[int32] | None = None


class ReassignableTopic(Struct):
    name: str
    partitions: list[ReassignablePartition]


class AlterPartitionReassignmentsRequest(Request, key=45, versions="0-1", flexible="0+"):
    timeout_ms: int32 = 60_000
    allow_replication_factor_change: bool = field(versions="1+", default=True)
    topics: list[ReassignableTopic] = field()


class ReassignablePartitionResponse(Struct):
    partition_index: int32
    error_code: int16 = 0
    error_message: str | None = None


class ReassignableTopicResponse(Struct):
    name: str
    partitions: list[ReassignablePartitionResponse]


class AlterPartitionReassignmentsResponse(Response, key=45, versions="0-1", flexible="0+"):
    throttle_time_ms: int32 = 0
    allow_replication_factor_change: bool = field(versions="1+", default=True)
    error_code: int16 = 0
    error_message: str | None = None
    responses: list[ReassignableTopicResponse] = field()
