"""ReadShareGroupStateSummary (key 87), v0-1: v1 adds how many records are done with."""

from uuid import UUID

from headwater.protocol.wire.codec import Request, Response, Struct, field, int16, int32, int64


class PartitionData(Struct):
    partition: int32
    leader_epoch: int32


class ReadStateSummaryData(Struct):
    topic_id: UUID
    partitions: list[PartitionData]


class ReadShareGroupStateSummaryRequest(Request, key=87, versions="0-1", flexible="0+"):
    group_id: str
    topics: list[ReadStateSummaryData]


class PartitionResult(Struct):
    partition: int32
    error_code: int16 = 0
    error_message: str | None = None
    state_epoch: int32 = 0
    leader_epoch: int32 = 0
    start_offset: int64 = 0
    delivery_complete_count: int32 = field(versions="1+", default=-1)


class ReadStateSummaryResult(Struct):
    topic_id: UUID
    partitions: list[PartitionResult]


class ReadShareGroupStateSummaryResponse(Response, key=87, versions="0-1", flexible="0+"):
    results: list[ReadStateSummaryResult]
