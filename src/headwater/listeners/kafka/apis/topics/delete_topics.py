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
    broker = context.broker
    try:
        if not broker.config.delete_topic_enable:
            raise Refusal(ErrorCode.TOPIC_DELETION_DISABLED, "deletion is switched off (delete.topic.enable)")
        name = _name(asked, context)
        topic = await broker.delete_topic(name)
    except HeadwaterError as error:
        return DeletableTopicResult(
            name=asked.name, topic_id=asked.topic_id, error_code=error.code, error_message=str(error)
        )
    return DeletableTopicResult(name=topic.name, topic_id=topic.id)


def _name(asked: DeleteTopicState, context: Context) -> str:
    if asked.name is not None:
        if asked.topic_id != NO_TOPIC_ID:
            raise Refusal(ErrorCode.INVALID_REQUEST, "a topic is named either by its name or by its id")
        return asked.name
    topic = context.broker.topic_by_id(TopicId(asked.topic_id))
    if topic is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has the id {asked.topic_id}")
    return topic.name
