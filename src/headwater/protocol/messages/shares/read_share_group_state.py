"""ReadShareGroupState (key 84), v0."""

from uuid import UUID

from headwater.protocol.wire.codec import Request, Response, Struct, field, int8, int16, int32, int64


class ReadShareGroupStateRequestPartition(Struct):
    partition: int32
    leader_epoch: int32


class ReadShareGroupStateRequestTopic(Struct):
    topic_id: UUID
    partitions: list[ReadShareGroupStateRequestPartition]


class ReadShareGroupStateRequest(Request, key=84, versions="0", flexible="0+"):
    group_id: str
    topics: list[ReadShareGroupStateRequestTopic]


class ReadStateBatch(Struct):
    first_offset: int64
    last_offset: int64
    delivery_state: int8
    delivery_count: int16


class ReadShareGroupStateResponsePartition(Struct):
    partition: int32
    error_code: int16 = 0
    error_message: str | None = None
    state_epoch: int32 = 0
    start_offset: int64 = 0
    state_batches: list[ReadStateBatch] = field()


class ReadShareGroupStateResponseTopic(Struct):
    topic_id: UUID
    partitions: list[ReadShareGroupStateResponsePartition]


class ReadShareGroupStateResponse(Response, key=84, versions="0", flexible="0+"):
    results: list[ReadShareGroupStateResponseTopic]
