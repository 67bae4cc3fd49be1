"""Consumers are created and deleted, and subscribe to topics."""

from typing import Annotated
from urllib.parse import quote

import msgspec

from headwater.errors import ErrorCode, HeadwaterError
from headwater.listeners.http.proxy.answers import INVALID, ProxyRefusal, answer
from headwater.listeners.http.proxy.consumers.consumer import Consumer
from headwater.listeners.http.proxy.consumers.settings import ConsumerBody
from headwater.listeners.http.proxy.declaration import ENTRIES_MAX, body_of, proxy_operation
from headwater.listeners.http.proxy.embedded_format import answer_type
from headwater.listeners.http.request import Request
from headwater.listeners.http.response import NO_CONTENT, Response
from headwater.security.acl import Operation
from headwater.security.acl import group as named
from headwater.security.acl import topic as named_topic


class SubscriptionBody(msgspec.Struct):
    """Topics by their names, or by a regular expression (RE2) that their whole names match."""

    topics: Annotated[list[str], msgspec.Meta(max_length=ENTRIES_MAX)] | None = None
    topic_pattern: str | None = None


@proxy_operation("POST", "/consumers/{group}")
async def create_consumer(request: Request, group: str) -> Response:
    """Create a consumer. Nobody but the client's user can use it."""
    request.guard.check(Operation.READ, named(group))
    content_type = answer_type(request)
    consumer = request.services.proxy.consumers.create(request, group, await body_of(request, ConsumerBody))
    created = {"instance_id": consumer.name, "base_uri": _base_uri(request, consumer)}
    return Response(200, msgspec.json.encode(created), content_type)


def _base_uri(request: Request, consumer: Consumer) -> str:
    base = request.services.config.headwater_rest_proxy_base_uri.rstrip("/")
    if not base:
        scheme = "https" if request.is_encrypted else "http"
        base = f"{scheme}://{request.headers.get('host', 'localhost')}"
    return f"{base}/consumers/{quote(consumer.group_id, safe='')}/instances/{quote(consumer.name, safe='')}"


@proxy_operation("DELETE", "/consumers/{group}/instances/{instance}")
async def delete_consumer(request: Request, group: str, instance: str) -> Response:
    """Delete a consumer: it commits what was handed out, unless auto.commit.enable is false, and leaves its group."""
    consumers = request.services.proxy.consumers
    async with consumers.using(request, group, instance) as consumer:
        consumers.remove(consumer)
        await consumer.close(is_deleted=True)
    return NO_CONTENT


@proxy_operation("POST", "/consumers/{group}/instances/{instance}/subscription")
async def subscribe(request: Request, group: str, instance: str) -> Response:
    """Subscribe to topics, as a member of the group: its partitions are shared with all other members."""
    body = await body_of(request, SubscriptionBody)
    async with request.services.proxy.consumers.using(request, group, instance) as consumer:
        if (not body.topics) is (not body.topic_pattern):
            raise ProxyRefusal(INVALID, "a subscription has either `topics` or `topic_pattern`")
        names = list(dict.fromkeys(body.topics or ()))
        for name in names:
            request.guard.check(Operation.DESCRIBE, named_topic(name))
        try:
            await consumer.subscribe(names, body.topic_pattern or None)
        except HeadwaterError as error:
            if error.code in (ErrorCode.INVALID_REGULAR_EXPRESSION, ErrorCode.GROUP_ID_NOT_FOUND):
                raise ProxyRefusal(INVALID, str(error)) from None
            raise
    return NO_CONTENT


@proxy_operation("GET", "/consumers/{group}/instances/{instance}/subscription")
async def get_subscription(request: Request, group: str, instance: str) -> Response:
    """The topics that the consumer is subscribed to; with a pattern, those that it reads now."""
    async with request.services.proxy.consumers.using(request, group, instance) as consumer:
        names = consumer.topic_names
        if consumer.pattern is not None:
            names = sorted({where.topic for where in consumer.assignment()})
        return answer(request, {"topics": names})


@proxy_operation("DELETE", "/consumers/{group}/instances/{instance}/subscription")
async def unsubscribe(request: Request, group: str, instance: str) -> Response:
    """Leave the group, or give up what was assigned."""
    async with request.services.proxy.consumers.using(request, group, instance) as consumer:
        await consumer.unsubscribe()
    return NO_CONTENT


OPERATIONS = (create_consumer, delete_consumer, subscribe, get_subscription, unsubscribe)
