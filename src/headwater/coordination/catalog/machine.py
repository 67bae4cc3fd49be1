"""The catalog: all topics with their ids, partition counts and settings, the settings of the broker and of groups, and
access (rules, roles and users), as a fold over its own log.

Pure: no clock, no I/O. `decide_*` checks a command against the state and returns events; `apply` is the only writer,
live and in recovery. An event has the whole state of its key, so that the log may be compacted by key.
"""

from collections.abc import Mapping, Sequence
from uuid import UUID

from headwater.coordination.access.events import (
    DelegationToken,
    DelegationTokenRemoved,
    SaltSecret,
    ScramCredential,
    ScramCredentialRemoved,
)
from headwater.coordination.access.identities import IdentityMachine
from headwater.coordination.access.machine import AccessLimits, AccessMachine
from headwater.coordination.catalog.events import (
    BrokerDefaults,
    BrokerOverrides,
    Event,
    GroupOverrides,
    ProducerIdsReserved,
    Topic,
    TopicDeleted,
)
from headwater.coordination.catalog.topic_names import check_topic_name, metric_name
from headwater.errors import ErrorCode, Refusal
from headwater.ids import GroupId, TopicId, TopicName

PRODUCER_ID_BLOCK = 1000


class CatalogMachine:
    def __init__(
        self,
        *,
        topics_max: int,
        partitions_max: int,
        access_limits: AccessLimits,
        groups_max: int = 100_000,
    ) -> None:
        # Rises with every change of a topic, so that readers of the catalog notice when their view is outdated.
        self.version = 0
        self.by_name: dict[TopicName, Topic] = {}
        self.by_id: dict[TopicId, Topic] = {}
        self._by_metric_name: dict[str, TopicName] = {}
        self.broker_overrides: Mapping[str, str] = {}
        self.broker_defaults: Mapping[str, str] = {}
        self.group_overrides: dict[GroupId, Mapping[str, str]] = {}
        self.next_producer_id = 0
        self.access = AccessMachine(access_limits)
        self.identities = IdentityMachine()
        self.partition_total = 0
        self.topics_max = topics_max
        self.partitions_max = partitions_max
        # Maximum number of groups that have settings of their own.
        self.groups_max = groups_max

    # -- decisions

    def decide_create(
        self, name: str, topic_id: UUID, partition_count: int, overrides: Mapping[str, str]
    ) -> Sequence[Event]:
        check_topic_name(name)
        if name in self.by_name:
            raise Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic '{name}' already exists")
        collision = self._by_metric_name.get(metric_name(name))
        if collision is not None:
            raise Refusal(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"topic '{name}' collides with '{collision}': '.' and '_' count as the same character",
            )
        if partition_count < 1:
            raise Refusal(ErrorCode.INVALID_PARTITIONS, "the number of partitions must be larger than 0")
        if len(self.by_name) >= self.topics_max:
            raise Refusal(
                ErrorCode.POLICY_VIOLATION, f"there are {len(self.by_name)} topics already (headwater.topics.max)"
            )
        self._check_room(partition_count)
        return [Topic(TopicName(name), TopicId(topic_id), partition_count, dict(overrides))]

    def decide_delete(self, name: str) -> Sequence[Event]:
        return [TopicDeleted(self.existing(name).name)]

    def check_grows(self, name: str, partition_count: int) -> Topic:
        """Refuse a number of partitions that is not above that of the topic, which is returned."""
        topic = self.existing(name)
        if partition_count == topic.partition_count:
            raise Refusal(ErrorCode.INVALID_PARTITIONS, f"topic '{name}' already has {partition_count} partitions")
        if partition_count < topic.partition_count:
            raise Refusal(
                ErrorCode.INVALID_PARTITIONS,
                f"topic '{name}' has {topic.partition_count} partitions, which cannot be reduced to {partition_count}",
            )
        return topic

    def decide_add_partitions(self, name: str, partition_count: int) -> Sequence[Event]:
        topic = self.check_grows(name, partition_count)
        self._check_room(partition_count - topic.partition_count)
        return [Topic(topic.name, topic.id, partition_count, topic.overrides)]

    def decide_configure(self, name: str, overrides: Mapping[str, str]) -> Sequence[Event]:
        topic = self.existing(name)
        if topic.overrides == overrides:
            return []
        return [Topic(topic.name, topic.id, topic.partition_count, dict(overrides))]

    def decide_configure_broker(self, values: Mapping[str, str]) -> Sequence[Event]:
        return [] if self.broker_overrides == values else [BrokerOverrides(dict(values))]

    def decide_configure_brokers(self, values: Mapping[str, str]) -> Sequence[Event]:
        """For the defaults of all brokers."""
        return [] if self.broker_defaults == values else [BrokerDefaults(dict(values))]

    def decide_configure_group(self, group_id: GroupId, values: Mapping[str, str]) -> Sequence[Event]:
        self.check_group_id(group_id)
        if self.group_overrides.get(group_id, {}) == values:
            return []
        if group_id not in self.group_overrides and len(self.group_overrides) >= self.groups_max:
            raise Refusal(
                ErrorCode.POLICY_VIOLATION,
                f"{len(self.group_overrides)} groups have settings already (headwater.groups.max)",
            )
        return [GroupOverrides(group_id, dict(values))]

    def decide_reserve_producer_ids(self) -> Sequence[Event]:
        return [ProducerIdsReserved(self.next_producer_id + PRODUCER_ID_BLOCK)]

    # -- state

    def apply(self, event: Event) -> None:
        match event:
            case Topic():
                self.version += 1
                before = self.by_name.get(event.name)
                if before is not None:
                    self._remove(before)
                self.by_name[event.name] = event
                self.by_id[event.id] = event
                self._by_metric_name[metric_name(event.name)] = event.name
                self.partition_total += event.partition_count
            case TopicDeleted(name):
                self.version += 1
                before = self.by_name.get(name)
                if before is not None:
                    self._remove(before)
            case BrokerOverrides(values):
                self.broker_overrides = values
            case BrokerDefaults(values):
                self.broker_defaults = values
            case GroupOverrides(group_id, values):
                if values:
                    self.group_overrides[group_id] = values
                else:
                    self.group_overrides.pop(group_id, None)
            case ProducerIdsReserved(next_id):
                self.next_producer_id = next_id
            case (
                ScramCredential()
                | ScramCredentialRemoved()
                | SaltSecret()
                | DelegationToken()
                | DelegationTokenRemoved()
            ):
                self.identities.apply(event)
            case _:
                self.access.apply(event)

    def existing(self, name: str) -> Topic:
        topic = self.by_name.get(TopicName(name))
        if topic is None:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic '{name}' does not exist")
        return topic

    def check_group_id(self, group_id: str) -> None:
        if not group_id:
            raise Refusal(ErrorCode.INVALID_REQUEST, "the name of a group must not be empty")

    def _remove(self, topic: Topic) -> None:
        del self.by_name[topic.name]
        del self.by_id[topic.id]
        del self._by_metric_name[metric_name(topic.name)]
        self.partition_total -= topic.partition_count

    def _check_room(self, more: int) -> None:
        if self.partition_total + more > self.partitions_max:
            raise Refusal(
                ErrorCode.POLICY_VIOLATION,
                f"{more} more partitions would exceed {self.partitions_max} (headwater.partitions.max)",
            )
