"""OffsetForLeaderEpoch (key 23), v2-4: v3 adds the replica, v4 is flexible."""

from headwater.protocol.wire.codec import Request, Response, Struct, field, int16, int32, int64


class OffsetForLeaderPartition(Struct):
    partition: int32
    current_leader_epoch: int32 = -1
    leader_epoch: int32


class OffsetForLeaderTopic(Struct):
    topic: str
    partitions: list[OffsetForLeaderPartition]


class OffsetForLeaderEpochRequest(Request, key=23, versions="2-4", flexible="4+"):
    replica_id: int32 = field(versions="3+", default=-2)
    topics: list[OffsetForLeaderTopic]


class EpochEndOffset(Struct):
    error_code: int16 = 0
    partition: int32
    leader_epoch: int32 = -1
    end_offset: int64 = -1


class OffsetForLeaderTopicResult(Struct):
    topic: str
    partitions: list[EpochEndOffset]


class OffsetForLeaderEpochResponse(Response, key=23, versions="2-4", flexible="4+"):
    throttle_time_ms: int32 = 0
    topics: list[OffsetForLeaderTopicResult]
