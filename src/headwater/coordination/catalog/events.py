"""The catalog's events. Each carries the whole state of its key, so that the log can be compacted by key."""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from headwater.coordination.catalog.topic_names import is_internal
from headwater.ids import GroupId, TopicId, TopicName


class Topic(NamedTuple):
    """A topic as it stands, and the event that says so."""

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
    """Settings of the broker that were changed while it ran."""

    values: Mapping[str, str]


class GroupOverrides(NamedTuple):
    """Settings of a group, which need not exist; none at all where they were unset."""

    group_id: GroupId
    values: Mapping[str, str]


class ProducerIdsReserved(NamedTuple):
    """Every producer id below `next_id` may be in use."""

    next_id: int


Event: TypeAlias = Topic | TopicDeleted | BrokerOverrides | GroupOverrides | ProducerIdsReserved
