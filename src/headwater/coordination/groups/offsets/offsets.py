"""The committed offsets of all groups of a shard, committed or pending, and when they expire.

Pure: no clock, no I/O. The group decides which clients may commit or delete, and the caller whether a topic exists.
"""

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, TypeAlias, assert_never

from headwater.config.declaration import INT64_MAX
from headwater.config.group_defaults import GroupDefaults
from headwater.coordination.catalog.events import Topic
from headwater.coordination.decisions import Decision, Now
from headwater.coordination.groups.offsets.commands import OffsetToCommit
from headwater.coordination.groups.offsets.events import (
    CommittedOffset,
    OffsetCommitted,
    OffsetEvent,
    OffsetForgotten,
    TransactionalOffsetCommitted,
    TransactionEnded,
)
from headwater.errors import ErrorCode
from headwater.ids import NO_TOPIC_ID, GroupId, ProducerId, TopicName

NO_EXPIRE_TIMESTAMP = -1

GroupPartition: TypeAlias = tuple[GroupId, TopicName, int]


class ExpiryRule(NamedTuple):
    """How a group lets its offsets expire. A group whose offsets must all be kept has no rule."""

    # When the group lost its last member; None counts the age of each offset from its commit.
    empty_since_ms: int | None = None
    # Topics whose offsets are kept however old they are.
    subscribed: Container[TopicName] = frozenset[TopicName]()


class OffsetTable:
    """Offsets by group, topic and partition. Invariant: no dictionary in it is empty."""

    def __init__(self) -> None:
        self._groups: dict[GroupId, dict[TopicName, dict[int, CommittedOffset]]] = {}

    def get(self, group_id: GroupId, topic: TopicName, partition: int) -> CommittedOffset | None:
        return self.of_group(group_id).get(topic, {}).get(partition)

    def of_group(self, group_id: GroupId) -> Mapping[TopicName, Mapping[int, CommittedOffset]]:
        return self._groups.get(group_id, {})

    def everything(self) -> Iterable[tuple[GroupId, TopicName, int, CommittedOffset]]:
        for group_id, topics in self._groups.items():
            for topic, partitions in topics.items():
                for partition, committed in partitions.items():
                    yield group_id, topic, partition, committed

    def with_topic(self, topic: TopicName) -> Iterable[tuple[GroupId, int]]:
        """The groups and partitions that have an offset of the topic."""
        for group_id, topics in self._groups.items():
            for partition in topics.get(topic, ()):
                yield group_id, partition

    def put(self, group_id: GroupId, topic: TopicName, partition: int, committed: CommittedOffset) -> None:
        self._groups.setdefault(group_id, {}).setdefault(topic, {})[partition] = committed

    def remove(self, group_id: GroupId, topic: TopicName, partition: int) -> None:
        topics = self._groups.get(group_id, {})
        partitions = topics.get(topic, {})
        if partitions.pop(partition, None) is None:
            return
        if not partitions:
            del topics[topic]
        if not topics:
            del self._groups[group_id]


class PendingOffsets:
    """Offsets committed inside open transactions: each counts once its transaction is committed.

    The order of the log decides, not the order in which transactions end: a pending offset is dropped when a later
    commit for the same partition overtakes it. Invariants: pending offsets are newer than the committed offset of the
    partition; no dictionary in it is empty.
    """

    def __init__(self) -> None:
        # The offsets of a partition are in the order of the log.
        self._groups: dict[GroupId, dict[tuple[TopicName, int], dict[ProducerId, CommittedOffset]]] = {}
        # The partitions of each transaction, as an ordered set: a replay must give the same order.
        self._producers: dict[ProducerId, dict[GroupPartition, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._groups)

    def of(self, group_id: GroupId, topic: TopicName, partition: int) -> Mapping[ProducerId, CommittedOffset]:
        return self.of_group(group_id).get((topic, partition), {})

    def of_group(self, group_id: GroupId) -> Mapping[tuple[TopicName, int], Mapping[ProducerId, CommittedOffset]]:
        return self._groups.get(group_id, {})

    def everything(self) -> Iterable[tuple[GroupId, TopicName, int, CommittedOffset]]:
        for group_id, partitions in self._groups.items():
            for (topic, partition), offsets in partitions.items():
                for committed in offsets.values():
                    yield group_id, topic, partition, committed

    def groups_of(self, producer_id: ProducerId) -> Collection[GroupId]:
        return {group_id for group_id, _, _ in self._producers.get(producer_id, ())}

    def put(self, producer_id: ProducerId, where: GroupPartition, committed: CommittedOffset) -> None:
        group_id, topic, partition = where
        offsets = self._groups.setdefault(group_id, {}).setdefault((topic, partition), {})
        # Moves to the end, as the newest.
        offsets.pop(producer_id, None)
        offsets[producer_id] = committed
        self._producers.setdefault(producer_id, {})[where] = None

    def overtake(self, where: GroupPartition) -> None:
        """A later event of the log commits or forgets the offset of the partition."""
        for producer_id in list(self.of(*where)):
            self._drop(producer_id, where)

    def end(self, producer_id: ProducerId, *, is_committed: bool) -> Iterable[tuple[GroupPartition, CommittedOffset]]:
        """Ends the producer's transaction and returns the offsets that are committed by it."""
        ended: list[tuple[GroupPartition, CommittedOffset]] = []
        for where in list(self._producers.get(producer_id, ())):
            offsets = self.of(*where)
            if is_committed:
                ended.append((where, offsets[producer_id]))
                producers = list(offsets)
                for overtaken in producers[: producers.index(producer_id)]:
                    self._drop(overtaken, where)
            self._drop(producer_id, where)
        return ended

    def _drop(self, producer_id: ProducerId, where: GroupPartition) -> None:
        group_id, topic, partition = where
        partitions = self._groups[group_id]
        offsets = partitions[topic, partition]
        del offsets[producer_id]
        if not offsets:
            del partitions[topic, partition]
        if not partitions:
            del self._groups[group_id]
        wheres = self._producers[producer_id]
        del wheres[where]
        if not wheres:
            del self._producers[producer_id]


class Offsets:
    """The committed offsets, and those that become so when their transactions are committed."""

    def __init__(self, config: GroupDefaults) -> None:
        self._config = config
        self._committed = OffsetTable()
        self._pending = PendingOffsets()

    # -- decisions

    def decide_commit(
        self, group_id: GroupId, commits: Iterable[OffsetToCommit], retention_ms: int | None, now: Now
    ) -> Decision[Sequence[ErrorCode]]:
        """One code for each offset. Only very old clients bring a retention of their own."""
        expire_timestamp_ms = NO_EXPIRE_TIMESTAMP
        if retention_ms is not None:
            expire_timestamp_ms = min(max(now.wall_ms + retention_ms, 0), INT64_MAX)
        events, codes = self._accept(group_id, commits, expire_timestamp_ms, now)
        return Decision(events, codes)

    def decide_commit_in_transaction(
        self,
        group_id: GroupId,
        commits: Iterable[OffsetToCommit],
        producer_id: ProducerId,
        producer_epoch: int,
        now: Now,
    ) -> Decision[Sequence[ErrorCode]]:
        """As `decide_commit`, inside the producer's transaction."""
        events, codes = self._accept(group_id, commits, NO_EXPIRE_TIMESTAMP, now)
        return Decision([TransactionalOffsetCommitted(producer_id, producer_epoch, *event) for event in events], codes)

    def _accept(
        self, group_id: GroupId, commits: Iterable[OffsetToCommit], expire_timestamp_ms: int, now: Now
    ) -> tuple[Sequence[OffsetCommitted], Sequence[ErrorCode]]:
        # If a partition is named twice, the last offset counts.
        events: dict[tuple[TopicName, int], OffsetCommitted] = {}
        codes: list[ErrorCode] = []
        for topic, partition, offset, leader_epoch, metadata, topic_id in commits:
            # Counted in characters, as Kafka does, although the setting is named after bytes.
            if len(metadata) > self._config.offset_metadata_max_bytes:
                codes.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
                continue
            codes.append(ErrorCode.NONE)
            committed = CommittedOffset(offset, leader_epoch, metadata, now.wall_ms, expire_timestamp_ms, topic_id)
            events[topic, partition] = OffsetCommitted(group_id, topic, partition, committed)
        return list(events.values()), codes

    def decide_delete(self, group_id: GroupId, partitions: Iterable[tuple[TopicName, int]]) -> Sequence[OffsetEvent]:
        """Partitions without an offset are skipped."""
        return [
            OffsetForgotten(group_id, topic, partition)
            for topic, partition in dict.fromkeys(partitions)
            if self._known(group_id, topic, partition)
        ]

    def decide_forget_group(self, group_id: GroupId) -> Sequence[OffsetEvent]:
        """Includes pending offsets: a transaction that ends later finds none of them."""
        committed = (
            (topic, partition) for topic, partitions in self.of_group(group_id).items() for partition in partitions
        )
        return self.decide_delete(group_id, chain(committed, self._pending.of_group(group_id)))

    def decide_forget_topics(self, topics: Collection[TopicName]) -> Sequence[OffsetEvent]:
        """The topics were deleted. A topic created later under the same name starts without offsets."""
        committed = (
            (group_id, topic, partition)
            for topic in topics
            for group_id, partition in self._committed.with_topic(topic)
        )
        pending = (
            (group_id, topic, partition)
            for group_id, topic, partition, _ in self._pending.everything()
            if topic in topics
        )
        return [OffsetForgotten(*where) for where in dict.fromkeys(chain(committed, pending))]

    def decide_forget_gone(self, topics: Mapping[TopicName, Topic]) -> Sequence[OffsetEvent]:
        """Forgets offsets of deleted topics whose name another topic has now. A topic that is not known at all may be
        restored yet: its offsets expire as any others do."""

        def is_gone(name: TopicName, committed: CommittedOffset) -> bool:
            return name in topics and committed.topic_id not in (NO_TOPIC_ID, topics[name].id)

        found = chain(self._committed.everything(), self._pending.everything())
        gone = dict.fromkeys(
            (group_id, name, partition) for group_id, name, partition, committed in found if is_gone(name, committed)
        )
        # An event forgets all offsets of a partition, so none is forgotten if one of them is of the current topic.
        return [
            OffsetForgotten(*where) for where in gone if all(is_gone(where[1], each) for each in self._known(*where))
        ]

    def decide_expire(self, group_id: GroupId, rule: ExpiryRule | None, now: Now) -> Decision[bool]:
        """Forgets offsets that are too old. The result is whether the group has no offsets left then. Offsets that an
        open transaction may change are kept."""
        found = self.of_group(group_id)
        pending = self._pending.of_group(group_id)
        if rule is None:
            return Decision([], not found and not pending)
        events: list[OffsetEvent] = []
        for topic, partitions in found.items():
            if topic not in rule.subscribed:
                events += [
                    OffsetForgotten(group_id, topic, partition)
                    for partition, committed in partitions.items()
                    if self._is_expired(committed, rule, now) and (topic, partition) not in pending
                ]
        return Decision(events, not pending and len(events) == sum(map(len, found.values())))

    def _is_expired(self, committed: CommittedOffset, rule: ExpiryRule, now: Now) -> bool:
        if committed.expire_timestamp_ms != NO_EXPIRE_TIMESTAMP:
            return now.wall_ms >= committed.expire_timestamp_ms
        since_ms = committed.commit_timestamp_ms if rule.empty_since_ms is None else rule.empty_since_ms
        return now.wall_ms - since_ms >= self._config.offsets_retention_ms

    # -- state

    def apply(self, event: OffsetEvent) -> None:
        match event:
            case OffsetCommitted(group_id, topic, partition, committed):
                self._committed.put(group_id, topic, partition, committed)
                if self._pending:
                    self._pending.overtake((group_id, topic, partition))
            case OffsetForgotten(group_id, topic, partition):
                self._committed.remove(group_id, topic, partition)
                self._pending.overtake((group_id, topic, partition))
            case TransactionalOffsetCommitted(producer_id, _, group_id, topic, partition, committed):
                self._pending.put(producer_id, (group_id, topic, partition), committed)
            case TransactionEnded(producer_id, _, _, is_committed):
                for where, committed in self._pending.end(producer_id, is_committed=is_committed):
                    self._committed.put(*where, committed)
            case _:
                assert_never(event)

    def committed(self, group_id: GroupId, topic: TopicName, partition: int) -> CommittedOffset | None:
        return self._committed.get(group_id, topic, partition)

    def has_pending(self, group_id: GroupId, topic: TopicName, partition: int) -> bool:
        """Whether an open transaction may change the committed offset."""
        return bool(self._pending.of(group_id, topic, partition))

    def pending_in(self, producer_id: ProducerId) -> Collection[GroupId]:
        """The groups for which the producer's open transaction has offsets."""
        return self._pending.groups_of(producer_id)

    def of_group(self, group_id: GroupId) -> Mapping[TopicName, Mapping[int, CommittedOffset]]:
        """The group's committed offsets, without pending ones."""
        return self._committed.of_group(group_id)

    def has_offsets(self, group_id: GroupId) -> bool:
        """Whether it has committed or pending offsets."""
        return bool(self.of_group(group_id) or self._pending.of_group(group_id))

    def _known(self, group_id: GroupId, topic: TopicName, partition: int) -> Sequence[CommittedOffset]:
        committed = self.committed(group_id, topic, partition)
        pending = self._pending.of(group_id, topic, partition).values()
        return [*pending] if committed is None else [committed, *pending]
