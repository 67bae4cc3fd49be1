"""OffsetDelete (key 47), v0, which is not flexible."""

from headwater.protocol.wire.codec import Request, Response, Struct, field, int16, int32


class OffsetDeleteRequestPartition(Struct):
    partition_index: int32


class OffsetDeleteRequestTopic(Struct):
    name: str
    partitions: list[OffsetDeleteRequestPartition]


class OffsetDeleteRequest(Request, key=47, versions="0"):
    group_id: str
    topics: list[OffsetDeleteRequestTopic]


class OffsetDeleteResponsePartition(Struct):
    partition_index: int32
    error_code: int16 = 0


class OffsetDeleteResponseTopic(Struct):
    name: str
    partitions: list[OffsetDeleteResponsePartition]


class OffsetDeleteResponse(Response, key=47, versions="0"):
    error_code: int16 = 0
    throttle_time_ms: int32 = 0
    topics: list[OffsetDeleteResponseTopic] = field()
