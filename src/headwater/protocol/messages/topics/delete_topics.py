"""DeleteTopics (key 20), v1-6: v4 is flexible, v5 adds error messages, v6 names topics by name or id."""

from uuid import UUID

from headwater.protocol.wire.codec import Request, Response, Struct, field, int16, int32


class DeleteTopicState(Struct):
    name: str | None = None
    topic_id: UUID = field()


class DeleteTopicsRequest(Request, key=20, versions="1-6", flexible="4+"):
    topics: list[DeleteTopicState] = field(versions="6+")
    topic_names: list[str] = field(versions="0-5")
    timeout_ms: int32


class DeletableTopicResult(Struct):
    name: str | None = field(nullable="6+", default="")
    topic_id: UUID = field(versions="6+")
    error_code: int16 = 0
    error_message: str | None = field(versions="5+")


class DeleteTopicsResponse(Response, key=20, versions="1-6", flexible="4+"):
    throttle_time_ms: int32 = 0
    responses: list[DeletableTopicResult]
