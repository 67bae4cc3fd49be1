"""DeleteTopics (key 20): by name, or from version 6 also by id."""

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
    asked = [*request.topics, *(DeleteTopicState(name=name) for name in request.topic_names)]
    return DeleteTopicsResponse(responses=[await _delete(topic, context) for topic in asked])


async def _delete(asked: DeleteTopicState, context: Context) -> DeletableTopicResult:
    topics = context.broker.topics
    try:
        if asked.name is None:
            topic = await topics.delete_by_id(TopicId(asked.topic_id))
        elif asked.topic_id != NO_TOPIC_ID:
            raise Refusal(ErrorCode.INVALID_REQUEST, "a topic is named either by its name or by its id")
        else:
            topic = await topics.delete(asked.name)
    except HeadwaterError as error:
        return DeletableTopicResult(
            name=asked.name, topic_id=asked.topic_id, error_code=error.code, error_message=str(error)
        )
    return DeletableTopicResult(name=topic.name, topic_id=topic.id)
