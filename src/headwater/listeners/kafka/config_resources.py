"""The things that have settings: topics, groups and this broker. What DescribeConfigs and both AlterConfigs share."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from enum import IntEnum
from typing import Protocol, TypeVar

from headwater.broker.broker import Broker
from headwater.broker.catalog.catalog import Change
from headwater.config import broker as broker_config
from headwater.config import group, topic
from headwater.config.broker import BrokerConfig
from headwater.config.declaration import ConfigEntry, Setting, find_setting
from headwater.config.group import GroupConfig
from headwater.config.topic import TopicConfig
from headwater.coordination.catalog.topic_names import check_topic_name
from headwater.errors import ErrorCode, Refusal
from headwater.ids import GroupId


class ResourceType(IntEnum):
    """Kafka's; loggers and client metrics have no settings here."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Named(Protocol):
    """A resource as requests name it."""

    @property
    def resource_type(self) -> int: ...
    @property
    def resource_name(self) -> str: ...


N = TypeVar("N", bound=Named)


async def once_each(resources: Sequence[N]) -> AsyncIterator[tuple[N, int]]:
    """Each resource, and how often it was named: whoever names one a thousand times gets it once. They are many, and
    each takes its time, so that all others are served in between."""
    times_named = Counter((each.resource_type, each.resource_name) for each in resources)
    for place, resource in {(each.resource_type, each.resource_name): each for each in resources}.items():
        yield resource, times_named[place]
        await asyncio.sleep(0)


def check_named_once(resource: Named, times_named: int) -> None:
    if times_named > 1:
        raise Refusal(
            ErrorCode.INVALID_REQUEST, f"'{resource.resource_name[:40]}' is changed {times_named} times in the request"
        )


def current_overrides(broker: Broker, resource_type: int, name: str) -> Mapping[str, str]:
    """What was set for the resource itself; an unknown one is refused as Kafka does, but a group need not exist."""
    topics = broker.catalog.topics
    match resource_type:
        case ResourceType.TOPIC:
            check_topic_name(name)
            return topics.existing(name).overrides
        case ResourceType.BROKER:
            check_broker_name(broker, name)
            return topics.broker_overrides
        case ResourceType.GROUP:
            topics.check_group_id(name)
            return topics.group_overrides.get(GroupId(name), {})
        case _:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"resource type {resource_type} has no settings here")


async def change_overrides(
    broker: Broker, resource_type: int, name: str, change: Change, *, validate_only: bool
) -> None:
    match resource_type:
        case ResourceType.TOPIC:
            await broker.configure_topic(name, change, validate_only=validate_only)
        case ResourceType.GROUP:
            await broker.catalog.configure_group(GroupId(name), change, validate_only=validate_only)
        case _:
            await broker.configure_broker(change, validate_only=validate_only)


def describe(broker: Broker, resource_type: int, overrides: Mapping[str, str]) -> Sequence[ConfigEntry]:
    """The settings in effect for a resource that sets `overrides` itself."""
    match resource_type:
        case ResourceType.TOPIC:
            return topic.describe(overrides, broker.config)
        case ResourceType.GROUP:
            return group.describe(overrides, broker.config)
        case _:
            return broker_config.describe(broker.config)


def declared_setting(resource_type: int, name: str) -> Setting:
    match resource_type:
        case ResourceType.TOPIC:
            return find_setting(TopicConfig, name, "topic")
        case ResourceType.GROUP:
            return find_setting(GroupConfig, name, "group")
        case _:
            return find_setting(BrokerConfig, name, "broker")


def check_broker_name(broker: Broker, name: str) -> None:
    """The empty name stands for the defaults of all brokers, which are this one's."""
    if name not in ("", str(broker.config.node_id)):
        raise Refusal(
            ErrorCode.INVALID_REQUEST, f"broker '{name[:40]}' is not here, this is broker {broker.config.node_id}"
        )
