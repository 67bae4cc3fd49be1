"""InitializeShareGroupState (key 83), v0."""

from uuid import UUID

from headwater.protocol.wire.codec import Request, Response, Struct, int16, int32, int64


class PartitionData(Struct):
    partition: int32
    state_epoch: int32
    start_offset: int64


class InitializeStateData(Struct):
    topic_id: UUID
    partitions: list[PartitionData]


class InitializeShareGroupStateRequest(Request, key=83, versions="0", flexible="0+"):
    group_id: str
    topics: list[InitializeStateData]


class PartitionResult(Struct):
    partition: int32
    error_code: int16 = 0
    error_message: str | None = None


class InitializeStateResult(Struct):
    topic_id: UUID
    partitions: list[PartitionResult]


class InitializeShareGroupStateResponse(Response, key=83, versions="0", flexible="0+"):
    results: list[InitializeStateResult]
