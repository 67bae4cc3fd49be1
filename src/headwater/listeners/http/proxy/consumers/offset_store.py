"""Committed offsets of a consumer's group, as a member of it or as a client that assigns partitions to itself."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from headwater.broker.broker import Broker
from headwater.coordination.groups.offsets.commands import Commit, FoundOffset, OffsetQuery, OffsetToCommit
from headwater.errors import Refusal
from headwater.ids import GroupId, MemberId, TopicPartition
from headwater.listeners.http.outcome import granted

_NO_GENERATION: Final = -1


class OffsetAndMetadata(NamedTuple):
    offset: int
    metadata: str = ""


class OffsetStore:
    def __init__(self, broker: Broker, group_id: GroupId) -> None:
        self._broker = broker
        self._group_id = group_id

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], member_id: MemberId | None, epoch: int
    ) -> None:
        """Raises a Refusal. Topics that are gone are left out."""
        wanted: list[OffsetToCommit] = []
        for where, (offset, metadata) in offsets.items():
            topic = self._broker.topics.find(where.topic)
            if topic is not None:
                wanted.append(OffsetToCommit(topic.name, where.partition, offset, -1, metadata, topic.id))
        if not wanted:
            return
        await self._broker.groups.prepare()
        generation = _NO_GENERATION if member_id is None else epoch
        commit = Commit(member_id or MemberId(""), None, generation, wanted)
        for each, code in zip(wanted, await granted(self._broker.groups.commit(self._group_id, commit)), strict=True):
            if code:
                raise Refusal(code, f"the offset of {each.topic}-{each.partition} is not committed: {code.name}")

    async def committed(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """Those that are committed. Raises a Refusal."""
        await self._broker.groups.prepare()
        query = OffsetQuery(partitions, require_stable=True)
        found: Sequence[FoundOffset] = await granted(self._broker.groups.committed(self._group_id, query))
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        for each in found:
            if each.error:
                raise Refusal(each.error, f"the offset of {each.partition} is not known: {each.error.name}")
            if each.committed is not None:
                offsets[each.partition] = OffsetAndMetadata(each.committed.offset, each.committed.metadata)
        return offsets
