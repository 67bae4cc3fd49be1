"""DeleteShareGroupState (key 86), v0."""

from uuid import UUID

from headwater.protocol.wire.codec import Request, Response, Struct, int16, int32


class PartitionData(Struct):
    partition: int32


class DeleteStateData(Struct):
    topic_id: UUID
    partitions: list[PartitionData]


class DeleteShareGroupStateRequest(Request, key=86, versions="0", flexible="0+"):
    group_id: str
    topics: list[DeleteStateData]


class PartitionResult(Struct):
    partition: int32
    error_code: int16 = 0
    error_message: str | None = None


class DeleteStateResult(Struct):
    topic_id: UUID
    partitions: list[PartitionResult]


class DeleteShareGroupStateResponse(Response, key=86, versions="0", flexible="0+"):
    results: list[DeleteStateResult]
