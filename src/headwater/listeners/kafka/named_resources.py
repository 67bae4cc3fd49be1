"""The resources that requests about settings name: each is answered once, however often it is named."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, TypeVar

from headwater.broker.access.guard import Guard
from headwater.broker.audit.event import EventType
from headwater.broker.config_resources import ResourceType
from headwater.errors import ErrorCode, Refusal
from headwater.security.acl import CLUSTER, Resource, group, topic


class Named(Protocol):
    """A resource in a request."""

    @property
    def resource_type(self) -> int: ...
    @property
    def resource_name(self) -> str: ...


N = TypeVar("N", bound=Named)


async def once_each(resources: Sequence[N]) -> AsyncIterator[tuple[N, int]]:
    """Each resource once, with the number of times it was named. A request may name thousands, so the loop serves other
    clients in between."""
    times_named = Counter((each.resource_type, each.resource_name) for each in resources)
    for place, resource in {(each.resource_type, each.resource_name): each for each in resources}.items():
        yield resource, times_named[place]
        await asyncio.sleep(0)


def check_named_once(resource: Named, times_named: int) -> None:
    if times_named > 1:
        raise Refusal(
            ErrorCode.INVALID_REQUEST, f"'{resource.resource_name[:40]}' is changed {times_named} times in the request"
        )
    if resource.resource_type == ResourceType.TOPIC and not resource.resource_name:
        raise Refusal(ErrorCode.INVALID_REQUEST, "topics have no common settings: the request must name a topic")


def check_settings_named_once(names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        raise Refusal(ErrorCode.INVALID_REQUEST, "a setting is given twice in the request")


def protected(resource: Named) -> Resource:
    """What a client needs the right to: settings of brokers, loggers and clients belong to the cluster."""
    match resource.resource_type:
        case ResourceType.TOPIC:
            return topic(resource.resource_name)
        case ResourceType.GROUP:
            return group(resource.resource_name)
        case _:
            return CLUSTER


def change_of(
    resource: Named, guard: Guard, settings: Sequence[str], *, validate_only: bool
) -> AbstractContextManager[None]:
    """Context manager: the block changes settings, for the audit log. Values are left out: some are secret."""
    if validate_only:
        return nullcontext()
    kind = ResourceType(resource.resource_type).name if resource.resource_type in list(ResourceType) else "unknown"
    named = f"{kind.lower()} '{resource.resource_name}'"
    return guard.change(EventType.CONFIG_CHANGE, named, {"settings": ",".join(settings)})
