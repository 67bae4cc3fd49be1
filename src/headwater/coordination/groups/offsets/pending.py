"""Offsets committed inside open transactions: each counts once its transaction is committed.

The order of the log decides, not the order in which transactions end: a pending offset is dropped when a later commit
for the same partition overtakes it. Invariant: pending offsets are newer than the committed offset of the partition.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import TypeAlias

from headwater.coordination.groups.offsets.events import CommittedOffset
from headwater.ids import GroupId, ProducerId, TopicName

GroupPartition: TypeAlias = tuple[GroupId, TopicName, int]


class PendingOffsets:
    """Invariant: no dictionary in it is empty."""

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
