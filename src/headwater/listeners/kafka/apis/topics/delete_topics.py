"""DeleteTopics (key 20), v1-6: deletes topics.

v4 is flexible, v5 adds error messages, v6 names topics by name or id."""

from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import NO_TOPIC_ID, TopicId
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.topics.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

REQUEST = DeleteTopicsRequest


async def handle(request: DeleteTopicsRequest, context: Context) -> DeleteTopicsResponse:
    requested = [*request.topics, *(DeleteTopicState(name=name) for name in request.topic_names)]
    return DeleteTopicsResponse(responses=[await _delete(topic, context) for topic in requested])


async def _delete(requested: DeleteTopicState, context: Context) -> DeletableTopicResult:
    topics = context.broker.topics
    try:
        if requested.name is None:
            topic = await topics.delete_by_id(TopicId(requested.topic_id))
        elif requested.topic_id != NO_TOPIC_ID:
            raise Refusal(ErrorCode.INVALID_REQUEST, "a topic is named either by its name or by its id")
        else:
            topic = await topics.delete(requested.name)
    except HeadwaterError as error:
        return DeletableTopicResult(
            name=requested.name, topic_id=requested.topic_id, error_code=error.code, error_message=str(error)
        )
    return DeletableTopicResult(name=topic.name, topic_id=topic.id)
