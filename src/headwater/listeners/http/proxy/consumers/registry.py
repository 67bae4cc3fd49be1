"""The consumers of all clients, by their owners: nobody else can use or even see one. Unused ones expire."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from headwater.listeners.http.proxy.answers import (
    CONSUMER_EXISTS,
    CONSUMER_NOT_FOUND,
    TOO_MANY,
    ProxyRefusal,
)
from headwater.listeners.http.proxy.consumers.consumer import Consumer
from headwater.listeners.http.proxy.consumers.settings import ConsumerBody, check_name, settings_of
from headwater.listeners.http.request import Request
from headwater.security.acl import Operation
from headwater.security.acl import group as named
from headwater.security.principals import Principal

if TYPE_CHECKING:
    from headwater.listeners.http.services import HttpServices

# The owner, the group, the name.
_Key = tuple[Principal, str, str]


class Consumers:
    def __init__(self, services: "HttpServices") -> None:
        self._services = services
        self._by_key: dict[_Key, Consumer] = {}
        self._counts: Counter[Principal] = Counter()
        # Of heartbeats and farewells, which are under way.
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._by_key)

    def create(self, request: Request, group: str, body: ConsumerBody) -> Consumer:
        settings = settings_of(body)
        name = body.name or f"rest-consumer-{uuid4()}"
        check_name(name)
        principal = request.guard.principal
        key = principal, group, name
        if key in self._by_key:
            raise ProxyRefusal(
                CONSUMER_EXISTS, "Consumer with specified consumer ID already exists in the specified consumer group."
            )
        config = self._services.config
        if len(self._by_key) >= config.headwater_rest_proxy_consumers_max:
            raise _too_many(config.headwater_rest_proxy_consumers_max, "headwater.rest.proxy.consumers.max")
        if self._counts[principal] >= config.headwater_rest_proxy_consumers_max_per_user:
            setting = "headwater.rest.proxy.consumers.max.per.user"
            raise _too_many(config.headwater_rest_proxy_consumers_max_per_user, setting)
        consumer = Consumer(request.broker, request.guard, group, name, settings)
        self._by_key[key] = consumer
        self._counts[principal] += 1
        return consumer

    @asynccontextmanager
    async def using(self, request: Request, group: str, name: str) -> AsyncGenerator[Consumer]:
        """The client's consumer, for one request at a time. It does not expire meanwhile."""
        guard = request.guard
        guard.check(Operation.READ, named(group))
        key = guard.principal, group, name
        consumer = self._existing(key)
        consumer.requests_under_way += 1
        try:
            async with consumer.lock:
                # It may have been deleted by the request before.
                if self._existing(key) is not consumer:
                    raise _not_found()
                consumer.guard = guard
                yield consumer
        finally:
            consumer.requests_under_way -= 1
            consumer.used_ms = request.broker.clock.monotonic_ms()

    def _existing(self, key: _Key) -> Consumer:
        consumer = self._by_key.get(key)
        if consumer is None:
            raise _not_found()
        return consumer

    def remove(self, consumer: Consumer) -> None:
        principal = consumer.guard.principal
        del self._by_key[principal, consumer.group_id, consumer.name]
        self._counts[principal] -= 1
        if not self._counts[principal]:
            del self._counts[principal]

    def sweep(self, now_ms: int) -> None:
        """Called about once a second."""
        idle_ms = self._services.config.headwater_rest_proxy_consumer_idle_ms
        for consumer in tuple(self._by_key.values()):
            is_idle = not consumer.requests_under_way and now_ms - consumer.used_ms >= idle_ms
            # Rights may have been taken away since.
            is_allowed = consumer.guard.allows(Operation.READ, named(consumer.group_id), is_probe=True)
            if is_idle or not is_allowed:
                self.remove(consumer)
                self._begin(consumer.close(is_deleted=False))
            elif consumer.membership is not None and now_ms >= consumer.membership.due_ms:
                self._begin(consumer.beat())

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def end(self) -> None:
        """The broker is about to stop: others in the groups need not wait for the members' sessions to end."""
        for consumer in self._by_key.values():
            consumer.leave()
        self._by_key.clear()
        self._counts.clear()


def _too_many(count_max: int, setting: str) -> ProxyRefusal:
    return ProxyRefusal(TOO_MANY, f"there are {count_max} consumers already ({setting})")


def _not_found() -> ProxyRefusal:
    return ProxyRefusal(CONSUMER_NOT_FOUND, "Consumer instance not found.")
