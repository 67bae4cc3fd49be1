"""Offsets that were committed inside transactions which have not ended: they count once theirs is committed.

The order of the log decides, not that in which transactions end: what a later commit for the same partition has
overtaken can count no more and is dropped. So whatever is pending is newer than what is committed.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import TypeAlias

from headwater.coordination.groups.offsets.events import CommittedOffset
from headwater.ids import GroupId, ProducerId, TopicName

Where: TypeAlias = tuple[GroupId, TopicName, int]


class PendingOffsets:
    """Nothing empty is kept."""

    def __init__(self) -> None:
        # Those of one partition are in the order of the log.
        self._groups: dict[GroupId, dict[tuple[TopicName, int], dict[ProducerId, CommittedOffset]]] = {}
        # Where each transaction has some; a dictionary because it keeps an order that a replay repeats.
        self._producers: dict[ProducerId, dict[Where, None]] = {}

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

    def put(self, producer_id: ProducerId, where: Where, committed: CommittedOffset) -> None:
        group_id, topic, partition = where
        offsets = self._groups.setdefault(group_id, {}).setdefault((topic, partition), {})
        # It takes its place anew, as the last.
        offsets.pop(producer_id, None)
        offsets[producer_id] = committed
        self._producers.setdefault(producer_id, {})[where] = None

    def overtake(self, where: Where) -> None:
        """The partition has been committed, or forgotten, later in the log."""
        for producer_id in list(self.of(*where)):
            self._drop(producer_id, where)

    def end(self, producer_id: ProducerId, *, is_committed: bool) -> Iterable[tuple[Where, CommittedOffset]]:
        """Gives what counts from now on."""
        ended: list[tuple[Where, CommittedOffset]] = []
        for where in list(self._producers.get(producer_id, ())):
            offsets = self.of(*where)
            if is_committed:
                ended.append((where, offsets[producer_id]))
                producers = list(offsets)
                for overtaken in producers[: producers.index(producer_id)]:
                    self._drop(overtaken, where)
            self._drop(producer_id, where)
        return ended

    def _drop(self, producer_id: ProducerId, where: Where) -> None:
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
