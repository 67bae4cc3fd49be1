"""OffsetFetch (key 9), v1-10: v2 asks for all topics, v6 is flexible, v8 asks for many groups, v9 adds the member
and its epoch, v10 names topics by id."""

from uuid import UUID

from headwater.protocol.wire.codec import Request, Response, Struct, field, int16, int32, int64


class OffsetFetchRequestTopic(Struct):
    name: str = field(versions="0-7")
    partition_indexes: list[int32] = field(versions="0-7")


class OffsetFetchRequestTopics(Struct):
    name: str = field(versions="8-9")
    topic_id: UUID = field(versions="10+")
    partition_indexes: list[int32] = field(versions="8+")


class OffsetFetchRequestGroup(Struct):
    group_id: str = field(versions="8+")
    member_id: str | None = field(versions="9+")
    member_epoch: int32 = field(versions="9+", default=-1)
    topics: list[OffsetFetchRequestTopics] | None = field(versions="8+")


class OffsetFetchRequest(Request, key=9, versions="1-10", flexible="6+"):
    group_id: str = field(versions="0-7")
    topics: list[OffsetFetchRequestTopic] | None = field(versions="0-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = field(versions="8+")
    require_stable: bool = field(versions="7+", default=False)


class OffsetFetchResponsePartition(Struct):
    partition_index: int32 = field(versions="0-7")
    committed_offset: int64 = field(versions="0-7")
    committed_leader_epoch: int32 = field(versions="5-7", default=-1)
    metadata: str | None = field(versions="0-7")
    error_code: int16 = field(versions="0-7")


class OffsetFetchResponseTopic(Struct):
    name: str = field(versions="0-7")
    partitions: list[OffsetFetchResponsePartition] = field(versions="0-7")


class OffsetFetchResponsePartitions(Struct):
    partition_index: int32 = field(versions="8+")
    committed_offset: int64 = field(versions="8+")
    committed_leader_epoch: int32 = field(versions="8+", default=-1)
    metadata: str | None = field(versions="8+")
    error_code: int16 = field(versions="8+")


class OffsetFetchResponseTopics(Struct):
    name: str = field(versions="8-9")
    topic_id: UUID = field(versions="10+")
    partitions: list[OffsetFetchResponsePartitions] = field(versions="8+")


class OffsetFetchResponseGroup(Struct):
    group_id: str = field(versions="8+")
    topics: list[OffsetFetchResponseTopics] = field(versions="8+")
    error_code: int16 = field(versions="8+", default=0)


class OffsetFetchResponse(Response, key=9, versions="1-10", flexible="6+"):
    throttle_time_ms: int32 = field(versions="3+")
    topics: list[OffsetFetchResponseTopic] = field(versions="0-7")
    error_code: int16 = field(versions="2-7", default=0)
    groups: list[OffsetFetchResponseGroup] = field(versions="8+")
