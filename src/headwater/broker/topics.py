"""Topics: how every listener finds, creates, grows and deletes them. The rules are enforced here once."""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from uuid import uuid4

from headwater.broker.catalog.effective_config import EffectiveConfig
from headwater.broker.catalog.hosted_partitions import HostedPartitions
from headwater.broker.partition import Partition
from headwater.broker.ports.leadership import Leadership
from headwater.broker.ports.metadata import Metadata
from headwater.config.topic import TopicConfig
from headwater.coordination.catalog.events import Event, Topic
from headwater.coordination.catalog.topic_names import check_topic_name, is_internal
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import NodeId, TopicId, TopicName, TopicPartition

__all__ = ["Assignments", "Topic", "Topics", "check_not_internal"]

logger = logging.getLogger(__name__)

# The nodes that are to hold each new partition, by its index.
Assignments = Mapping[int, Sequence[NodeId]]


class Topics:
    def __init__(
        self,
        metadata: Metadata,
        partitions: HostedPartitions,
        config: EffectiveConfig,
        leadership: Leadership,
    ) -> None:
        self._metadata = metadata
        self._partitions = partitions
        self._config = config
        self._leadership = leadership
        self._on_deleted: list[Callable[[TopicName], Awaitable[None]]] = []
        self._reserved: set[str] = set()

    def on_deleted(self, forget: Callable[[TopicName], Awaitable[None]]) -> None:
        """Have `forget` called for each deleted topic, before the deletion is acknowledged."""
        self._on_deleted.append(forget)

    def reserve(self, name: TopicName) -> None:
        """Keep a topic for the broker alone, though its name is not internal."""
        self._reserved.add(name)
        for partition in self._partitions.by_topic.get(name, ()):
            partition.is_internal = True

    def _check_not_reserved(self, name: str) -> None:
        check_not_internal(name)
        if name in self._reserved:
            raise internal_topic(name)

    # -- lookups

    def check_name(self, name: str) -> None:
        """Refuse a name that no topic may have."""
        check_topic_name(name)

    def find(self, name: str) -> Topic | None:
        return self._metadata.state.by_name.get(TopicName(name))

    def find_by_id(self, topic_id: TopicId) -> Topic | None:
        return self._metadata.state.by_id.get(topic_id)

    def existing(self, name: str) -> Topic:
        return self._metadata.state.existing(name)

    def existing_by_id(self, topic_id: TopicId) -> Topic:
        topic = self.find_by_id(topic_id)
        if topic is None:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has the id {topic_id}")
        return topic

    def all(self) -> Collection[Topic]:
        return self._metadata.state.by_name.values()

    def unknown_partition(self, name: str, index: int) -> Refusal:
        """Why there is no such partition."""
        found = self.find(name)
        reason = (
            f"topic '{name}' does not exist"
            if found is None
            else f"topic '{name}' has no partition {index}, only {found.partition_count}"
        )
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason)

    def replication_factor(self, topic: Topic) -> int:
        return len(self._leadership.replicas_of(TopicPartition(topic.name, 0)).replicas)

    # -- creation

    async def create(
        self,
        name: str,
        overrides: Mapping[str, str],
        *,
        partition_count: int | None = None,
        replication_factor: int | None = None,
        assignments: Assignments | None = None,
        validate_only: bool = False,
    ) -> Topic:
        """Create a topic, with the broker's defaults where the caller names no number of partitions or replicas."""
        self._check_not_reserved(name)
        if assignments:
            if partition_count is not None or replication_factor is not None:
                raise Refusal(
                    ErrorCode.INVALID_REQUEST, "a replica assignment excludes a number of partitions and replicas"
                )
            partition_count = len(assignments)
            self._check_assignments(assignments)
        else:
            self._check_replication_factor(replication_factor)
            config = self._config.live.current
            partition_count = config.num_partitions if partition_count is None else partition_count
            self._check_created_at_once(partition_count)
        return await self._create(name, partition_count, overrides, validate_only=validate_only)

    @property
    def is_created_on_first_use(self) -> bool:
        return self._config.live.current.auto_create_topics_enable

    async def create_on_first_use(self, name: str) -> None:
        """Create a topic that a client asks for, if that is switched on."""
        check_topic_name(name)
        if not self.is_created_on_first_use:
            return
        try:
            await self.create(name, {})
        except HeadwaterError:
            # Another client may have asked for it at the same time and been first.
            if self.find(name) is None:
                raise

    async def create_internal(self, name: TopicName, partition_count: int, overrides: Mapping[str, str]) -> None:
        await self._create(name, partition_count, overrides, validate_only=False)
        if name in self._reserved:
            self.reserve(name)

    async def _create(
        self, name: str, partition_count: int, overrides: Mapping[str, str], *, validate_only: bool
    ) -> Topic:
        metadata = self._metadata
        async with metadata.change_lock:
            events = metadata.state.decide_create(name, uuid4(), partition_count, overrides)
            (topic,) = events
            assert isinstance(topic, Topic)
            config = TopicConfig.from_overrides(overrides, self._config.live.current)
            if not validate_only:
                # Otherwise a client that tries again after the metadata failed would have the directories that the
                # first attempt made set aside.
                metadata.check_online()
                made = await self._partitions.make(topic, range(partition_count), config)
                await self._commit(events, made)
                self._partitions.add(topic.name, made)
                logger.info("created topic %s with %d partitions", name, partition_count)
            return topic

    async def add_partitions(
        self,
        name: str,
        partition_count: int,
        assignments: Sequence[Sequence[NodeId]] | None = None,
        *,
        validate_only: bool = False,
    ) -> None:
        """Let the topic grow to `partition_count` partitions."""
        self._check_not_reserved(name)
        self._metadata.state.check_grows(name, partition_count)
        added_count = partition_count - self.existing(name).partition_count
        if assignments is not None:
            if len(assignments) != added_count:
                raise Refusal(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"{added_count} partitions are added, {len(assignments)} are assigned",
                )
            self.check_nodes(assignments)
        self._check_created_at_once(added_count)
        metadata = self._metadata
        async with metadata.change_lock:
            before = self.existing(name)
            events = metadata.state.decide_add_partitions(name, partition_count)
            if validate_only:
                return
            metadata.check_online()
            indexes = range(before.partition_count, partition_count)
            made = await self._partitions.make(before, indexes, self._config.of_topic(before))
            await self._commit(events, made)
            self._partitions.add(before.name, made)
            logger.info("topic %s now has %d partitions", name, partition_count)

    async def _commit(self, events: Sequence[Event], made: Sequence[Partition]) -> None:
        """Commit the creation of partitions, or remove the directories that were made for it."""
        try:
            await self._metadata.commit(events)
        except HeadwaterError:
            # A failed log may hold the events all the same, and the next start would look for the partitions.
            if not self._metadata.is_in_doubt:
                await self._partitions.discard(made)
            raise

    # -- deletion

    async def delete(self, name: str) -> Topic:
        """Delete a topic with everything that groups have committed for it."""
        self._check_deletion_enabled()
        self._check_not_reserved(name)
        metadata = self._metadata
        async with metadata.change_lock:
            topic = self.existing(name)
            try:
                await metadata.commit(metadata.state.decide_delete(name))
            except HeadwaterError:
                if metadata.is_in_doubt:
                    # The next start may find that it is deleted. Until then no producer is promised durability.
                    for partition in self._partitions.by_topic[topic.name]:
                        partition.flush_failed("whether it is deleted is known at the next start")
                raise
            await self._partitions.remove(topic.name)
            logger.info("deleted topic %s", name)
        for forget in self._on_deleted:
            await forget(topic.name)
        return topic

    async def delete_by_id(self, topic_id: TopicId) -> Topic:
        self._check_deletion_enabled()
        return await self.delete(self.existing_by_id(topic_id).name)

    # -- rules

    def _check_deletion_enabled(self) -> None:
        if not self._config.live.current.delete_topic_enable:
            raise Refusal(ErrorCode.TOPIC_DELETION_DISABLED, "deletion is switched off (delete.topic.enable)")

    def _check_created_at_once(self, count: int) -> None:
        count_max = self._config.live.current.headwater_create_partitions_max
        if count > count_max:
            raise Refusal(
                ErrorCode.POLICY_VIOLATION,
                f"{count} partitions at once are more than {count_max} (headwater.create.partitions.max)",
            )

    def _check_replication_factor(self, replication_factor: int | None) -> None:
        node_count = len(self._leadership.node_ids())
        if replication_factor is not None and not 1 <= replication_factor <= node_count:
            raise Refusal(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"replication factor {replication_factor} needs as many brokers, and there is {node_count}",
            )

    def _check_assignments(self, assignments: Assignments) -> None:
        if sorted(assignments) != list(range(len(assignments))):
            raise Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions must be numbered from 0 on, each exactly once"
            )
        self.check_nodes(list(assignments.values()))

    def check_nodes(self, assignments: Sequence[Sequence[NodeId]]) -> None:
        """Refuse partitions that are assigned to no node, to an unknown one, or to one twice."""
        known = self._leadership.node_ids()
        for index, nodes in enumerate(assignments):
            if not nodes or len(set(nodes)) < len(nodes) or not set(nodes) <= set(known):
                raise Refusal(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"partition {index} is assigned to brokers {list(nodes)}, there are {list(known)}",
                )


def check_not_internal(name: str) -> None:
    if is_internal(name):
        raise internal_topic(name)


def internal_topic(name: str) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic '{name}' is internal: the broker alone makes and writes it"
    )
