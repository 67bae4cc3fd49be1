"""WriteShareGroupState (key 85), v0-1: v1 adds how many records are done with."""

from uuid import UUID

from headwater.protocol.wire.codec import Request, Response, Struct, field, int8, int16, int32, int64


class StateBatch(Struct):
    first_offset: int64
    last_offset: int64
    delivery_state: int8
    delivery_count: int16


class PartitionData(Struct):
    partition: int32
    state_epoch: int32
    leader_epoch: int32
    start_offset: int64
    delivery_complete_count: int32 = field(versions="1+", default=-1)
    state_batches: list[StateBatch]


class WriteStateData(Struct):
    topic_id: UUID
    partitions: list[PartitionData]


class WriteShareGroupStateRequest(Request, key=85, versions="0-1", flexible="0+"):
    group_id: str
    topics: list[WriteStateData]


class PartitionResult(Struct):
    partition: int32
    error_code: int16 = 0
    error_message: str | None = None


class WriteStateResult(Struct):
    topic_id: UUID
    partitions: list[PartitionResult]


class WriteShareGroupStateResponse(Response, key=85, versions="0-1", flexible="0+"):
    results: list[WriteStateResult]
