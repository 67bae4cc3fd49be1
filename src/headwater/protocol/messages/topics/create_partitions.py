"""CreatePartitions (key 37), v0-3: v2 is flexible, v3 adds an error code for quotas."""

from headwater.protocol.wire.codec import Request, Response, Struct, int16, int32


class CreatePartitionsAssignment(Struct):
    broker_ids: list[int32]


class CreatePartitionsTopic(Struct):
    name: str
    count: int32
    assignments: list[CreatePartitionsAssignment] | None


class CreatePartitionsRequest(Request, key=37, versions="0-3", flexible="2+"):
    topics: list[CreatePartitionsTopic]
    timeout_ms: int32
    validate_only: bool = False


class CreatePartitionsTopicResult(Struct):
    name: str
    error_code: int16 = 0
    error_message: str | None = None


class CreatePartitionsResponse(Response, key=37, versions="0-3", flexible="2+"):
    throttle_time_ms: int32 = 0
    results: list[CreatePartitionsTopicResult]
