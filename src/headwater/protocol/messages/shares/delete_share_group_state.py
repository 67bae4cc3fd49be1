"""DeleteShareGroupState (key 86), v0."""

from uuid import UUID

from headwater.protocol.wire.codec import Request, Response, Struct, int16, int32


class DeleteShareGroupStateRequestPartition(Struct):
    partition: int32


class DeleteShareGroupStateRequestTopic(Struct):
    topic_id: UUID
    partitions: list[DeleteShareGroupStateRequestPartition]


class DeleteShareGroupStateRequest(Request, key=86, versions="0", flexible="0+"):
    group_id: str
    topics: list[DeleteShareGroupStateRequestTopic]


class DeleteShareGroupStateResponsePartition(Struct):
    partition: int32
    error_code: int16 = 0
    error_message: str | None = None


class DeleteShareGroupStateResponseTopic(Struct):
    topic_id: UUID
    partitions: list[DeleteShareGroupStateResponsePartition]


class DeleteShareGroupStateResponse(Response, key=86, versions="0", flexible="0+"):
    results: list[DeleteShareGroupStateResponseTopic]
