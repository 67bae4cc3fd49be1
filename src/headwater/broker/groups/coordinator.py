"""Consumer groups and their offsets: every command to the machines over `__consumer_offsets`.

The first request for a group's coordinator creates the topic. A refused command is an outcome, never raised.
"""

# Lazy annotations: nested functions are defined per request.
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from headwater.broker.catalog.effective_config import EffectiveConfig
from headwater.broker.catalog.hosted_partitions import HostedPartitions
from headwater.broker.groups.topic_view import TopicView
from headwater.broker.partition import Partition
from headwater.broker.pending import Pending
from headwater.broker.ports.leadership import Leadership
from headwater.broker.shards.shard import Decide, Outcome
from headwater.broker.shards.sharded_topic import ShardedTopic, ShardedTopicDefinition, refused
from headwater.broker.topics import Topics
from headwater.broker.writes.journal import Journal
from headwater.clock import Clock
from headwater.coordination.catalog.machine import CatalogMachine
from headwater.coordination.catalog.topic_names import OFFSETS_TOPIC
from headwater.coordination.decisions import Decision, Now, Ticket
from headwater.coordination.groups.terms import GroupListing, GroupType
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import GroupId, MemberId, ProducerId, TopicName, TopicPartition
from headwater.metrics import Labels, Sample

if TYPE_CHECKING:
    from headwater.broker.groups.log import GroupLog
    from headwater.coordination.groups.classic.commands import (
        ClassicDescription,
        Join,
        JoinResult,
        Leave,
        LeaveResult,
        Sync,
        SyncResult,
    )
    from headwater.coordination.groups.consumer.commands import ConsumerDescription, MemberAnswer, MemberHeartbeat
    from headwater.coordination.groups.group import Group
    from headwater.coordination.groups.machine import GroupMachine
    from headwater.coordination.groups.offsets.commands import Commit, FoundOffset, OffsetQuery
    from headwater.coordination.groups.share.commands import ShareAnswer, ShareDescription, ShareHeartbeat

ResultT = TypeVar("ResultT")

GROUP_ID_LENGTH_MAX = 1000


class GroupCoordinator(ShardedTopic["GroupMachine"]):
    def __init__(
        self,
        topics: Topics,
        partitions: HostedPartitions,
        catalog: CatalogMachine,
        config: EffectiveConfig,
        leadership: Leadership,
        journal: Journal,
        clock: Clock,
    ) -> None:
        self._config = config.live
        view = TopicView(catalog, leadership)

        def new_log(partition: Partition) -> GroupLog:
            # Late import, as of the machine: a broker without groups needs neither.
            from headwater.broker.groups.log import GroupLog  # noqa: PLC0415

            return GroupLog(partition, config.live.current.offsets_topic_compression_codec)

        def new_machine() -> GroupMachine:
            from headwater.coordination.groups.machine import GroupMachine  # noqa: PLC0415

            return GroupMachine(config.live.current, config.of_group, view, self._has_room, self._bytes_left)

        definition = ShardedTopicDefinition(
            OFFSETS_TOPIC,
            lambda: config.live.current.offsets_topic_num_partitions,
            lambda: {"segment.bytes": str(config.live.current.offsets_topic_segment_bytes)},
            new_log,
            new_machine,
        )
        super().__init__(definition, topics, partitions, journal, clock)

    def _has_room(self) -> bool:
        """Whether one more group may be created."""
        return sum(len(machine.groups) for machine in self.machines()) < self._config.current.headwater_groups_max

    def _bytes_left(self) -> int:
        """How many bytes the members of all groups may still take."""
        taken = sum(machine.weight for machine in self.machines())
        return self._config.current.headwater_groups_memory_max_bytes - taken

    # -- measurements

    def ids(self) -> Iterator[GroupId]:
        for machine in self.machines():
            yield from machine.groups

    def offset_samples(self) -> Iterator[Sample]:
        for group_id, where, offset in self._committed_offsets():
            yield Sample(_labels(group_id, where), offset)

    def lag_samples(self) -> Iterator[Sample]:
        for group_id, where, offset in self._committed_offsets():
            partition = self._partitions.find(where)
            if partition is not None:
                yield Sample(_labels(group_id, where), max(partition.high_watermark - offset, 0))

    def _committed_offsets(self) -> Iterator[tuple[GroupId, TopicPartition, int]]:
        for machine in self.machines():
            for group_id in machine.groups:
                for topic, partitions in machine.offsets.of_group(group_id).items():
                    for index, committed in partitions.items():
                        yield group_id, TopicPartition(topic, index), committed.offset

    def _submit(
        self,
        group_id: GroupId,
        decide: Decide[GroupMachine, ResultT],
        *,
        empty_id_code: ErrorCode | None = ErrorCode.INVALID_GROUP_ID,
    ) -> Pending[Outcome[ResultT]]:
        """`empty_id_code` refuses an empty group id; None where Kafka allows one."""
        if not group_id and empty_id_code is not None:
            return refused(Refusal(empty_id_code, "a group has a name (group.id)"))
        if len(group_id) > GROUP_ID_LENGTH_MAX:
            message = f"a group's name has at most {GROUP_ID_LENGTH_MAX} characters (group.id)"
            return refused(Refusal(ErrorCode.INVALID_GROUP_ID, message))
        return self.submit(group_id, decide)

    # -- the classic protocol

    def join(self, group_id: GroupId, join: Join) -> Pending[Outcome[JoinResult]]:
        return self._submit(group_id, lambda machine, ticket, now: machine.decide_join(group_id, join, ticket, now))

    def sync(self, group_id: GroupId, sync: Sync) -> Pending[Outcome[SyncResult]]:
        return self._submit(group_id, lambda machine, ticket, now: machine.decide_sync(group_id, sync, ticket, now))

    def heartbeat(
        self, group_id: GroupId, member_id: MemberId, instance_id: str | None, generation: int
    ) -> Pending[Outcome[ErrorCode]]:
        return self._submit(
            group_id,
            lambda machine, _, now: machine.decide_heartbeat(group_id, member_id, instance_id, generation, now),
        )

    def leave(self, group_id: GroupId, leaving: Sequence[Leave]) -> Pending[Outcome[Sequence[LeaveResult]]]:
        return self._submit(group_id, lambda machine, _, now: machine.decide_leave(group_id, leaving, now))

    # -- the next-generation protocol

    def member_heartbeat(self, group_id: GroupId, heartbeat: MemberHeartbeat) -> Pending[Outcome[MemberAnswer]]:
        return self._submit(
            group_id,
            lambda machine, _, now: machine.decide_member_heartbeat(group_id, heartbeat, now),
            empty_id_code=ErrorCode.INVALID_REQUEST,
        )

    # -- share groups

    def share_heartbeat(self, group_id: GroupId, heartbeat: ShareHeartbeat) -> Pending[Outcome[ShareAnswer]]:
        return self._submit(
            group_id,
            lambda machine, _, now: machine.decide_share_heartbeat(group_id, heartbeat, now),
            empty_id_code=ErrorCode.INVALID_REQUEST,
        )

    def describe_share(self, group_id: GroupId) -> Pending[Outcome[ShareDescription]]:
        return self._query(group_id, lambda machine: machine.describe_share(group_id))

    def check_empty_share_group(self, group_id: GroupId) -> Pending[Outcome[None]]:
        """Refuses unless there is such a share group, without members."""
        return self._query(group_id, lambda machine: machine.share_group(group_id).check_empty())

    def restart_share_group(self, group_id: GroupId) -> Pending[Outcome[None]]:
        """Refuses a share group with members; begins one that does not exist."""
        return self._submit(group_id, lambda machine, _ticket, _now: machine.decide_restart_share_group(group_id))

    def open_share_group(self, group_id: GroupId) -> Pending[Outcome[None]]:
        """Begins a share group that does not exist; refuses a group of another kind."""
        return self._submit(group_id, lambda machine, _ticket, _now: machine.decide_open_share_group(group_id))

    def check_share_group(self, group_id: GroupId) -> Pending[Outcome[None]]:
        """Refuses unless there is such a share group."""

        def check(machine: GroupMachine) -> None:
            machine.share_group(group_id)

        return self._query(group_id, check)

    def has_share_reader(self, group_id: GroupId, topic: TopicName) -> bool:
        """Whether it is a share group with a member that subscribes to the topic."""
        group = self._find(group_id)
        return group is not None and group.type is GroupType.SHARE and group.is_subscribed_to(topic)

    def is_loading(self, group_id: GroupId) -> bool:
        """Whether the machine of the group cannot answer now."""
        return bool(self.shards) and self.shards[self.partition_of(group_id)].machine is None

    def is_share_group(self, group_id: GroupId) -> bool:
        group = self._find(group_id)
        return group is not None and group.type is GroupType.SHARE

    def _find(self, group_id: GroupId) -> Group | None:
        """None also while its machine is being loaded."""
        machine = self.shards[self.partition_of(group_id)].machine if self.shards else None
        return None if machine is None else machine.groups.get(group_id)

    # -- offsets

    def commit(self, group_id: GroupId, commit: Commit) -> Pending[Outcome[Sequence[ErrorCode]]]:
        """An error code for each of the offsets, in their order."""
        return self._submit(
            group_id, lambda machine, _, now: machine.decide_commit(group_id, commit, now), empty_id_code=None
        )

    def commit_in_transaction(
        self, group_id: GroupId, commit: Commit, producer_id: ProducerId, producer_epoch: int
    ) -> Pending[Outcome[Sequence[ErrorCode]]]:
        """As `commit`, but the offsets count once the producer's transaction is committed. The caller has made sure,
        with the transaction coordinator, that the transaction is open and includes the partition of this group."""
        return self._submit(
            group_id,
            lambda machine, _, now: machine.decide_commit_in_transaction(
                group_id, commit, producer_id, producer_epoch, now
            ),
        )

    def end_transaction(
        self,
        partition_index: int,
        producer_id: ProducerId,
        producer_epoch: int,
        coordinator_epoch: int,
        is_committed: bool,
        transaction_version: int,
    ) -> Pending[Outcome[None]]:
        """Make the offsets count that the producer committed for groups of that partition, or forget them."""
        if not 0 <= partition_index < len(self.shards):
            message = f"{OFFSETS_TOPIC} has no partition {partition_index}"
            return refused(Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message))
        return self.shards[partition_index].submit(
            lambda machine, _ticket, _now: machine.decide_end_transaction(
                producer_id, producer_epoch, coordinator_epoch, is_committed, transaction_version
            )
        )

    def committed(self, group_id: GroupId, query: OffsetQuery) -> Pending[Outcome[Sequence[FoundOffset]]]:
        return self._submit(
            group_id, lambda machine, _ticket, _now: machine.committed(group_id, query), empty_id_code=None
        )

    def delete_offsets(
        self, group_id: GroupId, partitions: Sequence[TopicPartition]
    ) -> Pending[Outcome[Sequence[ErrorCode]]]:
        return self._submit(
            group_id, lambda machine, _ticket, _now: machine.decide_delete_offsets(group_id, partitions)
        )

    # -- groups as wholes

    def describe_classic(self, group_id: GroupId) -> Pending[Outcome[ClassicDescription]]:
        return self._query(group_id, lambda machine: machine.describe_classic(group_id), empty_id_code=None)

    def describe_consumer(self, group_id: GroupId) -> Pending[Outcome[ConsumerDescription]]:
        return self._query(group_id, lambda machine: machine.describe_consumer(group_id))

    def delete(self, group_id: GroupId) -> Pending[Outcome[None]]:
        return self._submit(
            group_id, lambda machine, _ticket, _now: machine.decide_delete(group_id), empty_id_code=None
        )

    async def list(self) -> list[GroupListing]:
        """The groups of all shards. Refused if one shard cannot answer, because a part would look like all groups."""
        listings: list[GroupListing] = []
        for outcome in await self.submit_to_all(_decide_listings):
            if isinstance(outcome, HeadwaterError):
                raise outcome
            listings += outcome
        return listings

    async def topic_deleted(self, name: TopicName) -> None:
        """Forget what was committed for the topic: it is of no use to another topic that gets the same name."""
        await self.submit_to_all(lambda machine, _ticket, _now: machine.decide_forget_topics([name]))

    async def expire(self) -> None:
        """Forget offsets that were not used for `offsets.retention.minutes`, and groups that have nothing left."""
        await self.submit_to_all(lambda machine, _ticket, now: machine.decide_expire(now))

    def _query(
        self,
        group_id: GroupId,
        read: Callable[[GroupMachine], ResultT],
        *,
        empty_id_code: ErrorCode | None = ErrorCode.INVALID_GROUP_ID,
    ) -> Pending[Outcome[ResultT]]:
        def decide(machine: GroupMachine, _ticket: Ticket, _now: Now) -> Decision[ResultT]:
            return Decision((), read(machine))

        return self._submit(group_id, decide, empty_id_code=empty_id_code)


def _labels(group_id: GroupId, where: TopicPartition) -> Labels:
    return ("group", group_id), ("topic", where.topic), ("partition", str(where.partition))


def _decide_listings(machine: GroupMachine, _ticket: Ticket, _now: Now) -> Decision[Sequence[GroupListing]]:
    return Decision((), machine.listings())
