"""ListPartitionReassignments (key 46), v0, flexible."""

from headwater.protocol.wire.codec import Request, Response, Struct, field, int16, int32


class ListPartitionReassignmentsTopics(Struct):
    name: str
    partition_indexes: list[int32]


class ListPartitionReassignmentsRequest(Request, key=46, versions="0", flexible="0+"):
    timeout_ms: int32 = 60_000
    topics: list[ListPartitionReassignmentsTopics] | None = None


class OngoingPartitionReassignment(Struct):
    partition_index: int32
    replicas: list[int32]
    adding_replicas: list[int32]
    removing_replicas: list[int32]


class OngoingTopicReassignment(Struct):
    name: str
    partitions: list[OngoingPartitionReassignment]


class ListPartitionReassignmentsResponse(Response, key=46, versions="0", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    topics: list[OngoingTopicReassignment] = field()
