"""DeleteTopics (key 20), v1-6: deletes topics.

v4 is flexible, v5 adds error messages, v6 names topics by name or id."""

from collections import Counter

from headwater.broker.audit.event import EventType
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import NO_TOPIC_ID, TopicId
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.topics.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from headwater.security.acl import CLUSTER, Operation
from headwater.security.acl import topic as named

REQUEST = DeleteTopicsRequest


async def handle(request: DeleteTopicsRequest, context: Context) -> DeleteTopicsResponse:
    requested = [*request.topics, *(DeleteTopicState(name=name) for name in request.topic_names)]
    times_named = Counter((topic.name, topic.topic_id) for topic in requested)
    once = {(topic.name, topic.topic_id): topic for topic in requested}
    return DeleteTopicsResponse(
        responses=[await _delete(topic, times_named[named_by], context) for named_by, topic in once.items()]
    )


def _check(name: str, context: Context) -> None:
    guard = context.guard
    if not guard.allows(Operation.DELETE, CLUSTER, is_probe=True):
        guard.check(Operation.DESCRIBE, named(name))
        # Who may describe a topic may also learn that it does not exist.
        context.broker.topics.existing(name)
        guard.check(Operation.DELETE, named(name))


async def _delete(requested: DeleteTopicState, times_named: int, context: Context) -> DeletableTopicResult:
    topics = context.broker.topics
    shown = requested.name
    try:
        if times_named > 1:
            raise Refusal(ErrorCode.INVALID_REQUEST, "a topic is named twice in the request")
        if (requested.name is None) is (requested.topic_id == NO_TOPIC_ID):
            raise Refusal(ErrorCode.INVALID_REQUEST, "a topic is named either by its name or by its id")
        if requested.name is None:
            topic = topics.existing_by_id(TopicId(requested.topic_id))
            if context.guard.allows(Operation.DESCRIBE, named(topic.name), is_probe=True):
                shown = topic.name
            _check(topic.name, context)
            with context.guard.change(EventType.TOPIC_DELETE, str(named(topic.name))):
                topic = await topics.delete(topic.name)
        else:
            _check(requested.name, context)
            with context.guard.change(EventType.TOPIC_DELETE, str(named(requested.name))):
                topic = await topics.delete(requested.name)
    except HeadwaterError as error:
        return DeletableTopicResult(
            name=shown, topic_id=requested.topic_id, error_code=error.code, error_message=str(error)
        )
    return DeletableTopicResult(name=topic.name, topic_id=topic.id)
