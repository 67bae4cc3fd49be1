"""ReadShareGroupState (key 84), v0."""

from uuid import UUID

from headwater.protocol.wire.codec import Request, Response, Struct, field, int8, int16, int32, int64


class PartitionData(Struct):
    partition: int32
    leader_epoch: int32


class ReadStateData(Struct):
    topic_id: UUID
    partitions: list[PartitionData]


class ReadShareGroupStateRequest(Request, key=84, versions="0", flexible="0+"):
    group_id: str
    topics: list[ReadStateData]


class StateBatch(Struct):
    first_offset: int64
    last_offset: int64
    delivery_state: int8
    delivery_count: int16


class PartitionResult(Struct):
    partition: int32
    error_code: int16 = 0
    error_message: str | None = None
    state_epoch: int32 = 0
    start_offset: int64 = 0
    state_batches: list[StateBatch] = field()


class ReadStateResult(Struct):
    topic_id: UUID
    partitions: list[PartitionResult]


class ReadShareGroupStateResponse(Response, key=84, versions="0", flexible="0+"):
    results: list[ReadStateResult]
