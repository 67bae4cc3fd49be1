"""The catalog's events. Each has the whole state of its key, so that the log can be compacted by key."""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from headwater.coordination.access.events import AccessEvent
from headwater.coordination.catalog.topic_names import is_internal
from headwater.ids import GroupId, TopicId, TopicName


class Topic(NamedTuple):
    """The current state of a topic, and the event that sets it."""

    name: TopicName
    id: TopicId
    partition_count: int
    overrides: Mapping[str, str]

    @property
    def is_internal(self) -> bool:
        return is_internal(self.name)


class TopicDeleted(NamedTuple):
    name: TopicName


class BrokerOverrides(NamedTuple):
    """Settings of this broker changed at run time."""

    values: Mapping[str, str]


class BrokerDefaults(NamedTuple):
    """Settings of all brokers changed at run time: a broker uses those that it does not override."""

    values: Mapping[str, str]


class GroupOverrides(NamedTuple):
    """Settings of a group, which need not exist. Empty values: the group has no settings of its own any more."""

    group_id: GroupId
    values: Mapping[str, str]


class ProducerIdsReserved(NamedTuple):
    """Every producer id below `next_id` may be in use."""

    next_id: int


Event: TypeAlias = (
    Topic | TopicDeleted | BrokerOverrides | BrokerDefaults | GroupOverrides | ProducerIdsReserved | AccessEvent
)
