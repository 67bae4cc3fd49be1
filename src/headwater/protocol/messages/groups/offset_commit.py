"""OffsetCommit (key 8), v2-10: v5 drops retention, v8 is flexible, v9 takes member epochs, v10 names topics by id."""

from uuid import UUID

from headwater.protocol.wire.codec import Request, Response, Struct, field, int16, int32, int64


class OffsetCommitRequestPartition(Struct):
    partition_index: int32
    committed_offset: int64
    committed_leader_epoch: int32 = field(versions="6+", default=-1)
    committed_metadata: str | None = field(default="")


class OffsetCommitRequestTopic(Struct):
    name: str = field(versions="0-9")
    topic_id: UUID = field(versions="10+")
    partitions: list[OffsetCommitRequestPartition]


class OffsetCommitRequest(Request, key=8, versions="2-10", flexible="8+"):
    group_id: str
    generation_id_or_member_epoch: int32 = -1
    member_id: str = ""
    group_instance_id: str | None = field(versions="7+")
    retention_time_ms: int64 = field(versions="2-4", default=-1)
    topics: list[OffsetCommitRequestTopic]


class OffsetCommitResponsePartition(Struct):
    partition_index: int32
    error_code: int16 = 0


class OffsetCommitResponseTopic(Struct):
    name: str = field(versions="0-9")
    topic_id: UUID = field(versions="10+")
    partitions: list[OffsetCommitResponsePartition]


class OffsetCommitResponse(Response, key=8, versions="2-10", flexible="8+"):
    throttle_time_ms: int32 = field(versions="3+")
    topics: list[OffsetCommitResponseTopic]
