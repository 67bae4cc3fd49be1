"""One-line requests to one group of a driven machine, and initial states for tests."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from headwater.coordination.decisions import Ticket
from headwater.coordination.groups.classic.commands import NO_GENERATION, Join, JoinResult, Leave, Sync, SyncResult
from headwater.coordination.groups.classic.group import ClassicGroup
from headwater.coordination.groups.consumer.commands import MemberAnswer, MemberHeartbeat
from headwater.coordination.groups.consumer.group import ConsumerGroup
from headwater.coordination.groups.group import Group
from headwater.coordination.groups.machine import GroupMachine
from headwater.coordination.groups.offsets.commands import Commit, OffsetQuery, OffsetToCommit
from headwater.coordination.groups.terms import NO_MEMBER, GroupState
from headwater.errors import ErrorCode
from headwater.ids import NO_TOPIC_ID, GroupId, MemberId, ProducerId, TopicName, TopicPartition
from tests.support.coordination.consumer_driver import Topics, heartbeat
from tests.support.coordination.migration_driver import join_request

if TYPE_CHECKING:
    from tests.coordination.groups.machine_driver import MachineDriver


class OneGroup:
    """The requests of clients of one group."""

    def __init__(self, driver: "MachineDriver", group_id: GroupId) -> None:
        self.driver = driver
        self.group_id = group_id
        self.topics = driver.topics
        self.answers = driver.answers

    @property
    def machine(self) -> GroupMachine:
        return self.driver.machine

    @property
    def group(self) -> Group | None:
        return self.machine.groups.get(self.group_id)

    @property
    def state(self) -> GroupState | None:
        return None if self.group is None else self.group.state

    @property
    def consumer(self) -> ConsumerGroup:
        assert isinstance(self.group, ConsumerGroup)
        return self.group

    @property
    def classic(self) -> ClassicGroup:
        assert isinstance(self.group, ClassicGroup)
        return self.group

    def join(self, join: Join) -> JoinResult | Ticket:
        driver = self.driver
        return driver.request(lambda ticket: self.machine.decide_join(self.group_id, join, ticket, driver.now))

    def sync(
        self,
        member_id: str,
        generation: int,
        *,
        instance: str | None = None,
        assignments: Mapping[MemberId, bytes] | None = None,
    ) -> SyncResult | Ticket:
        driver = self.driver
        sync = Sync(MemberId(member_id), instance, generation, None, None, assignments or {})
        return driver.request(lambda ticket: self.machine.decide_sync(self.group_id, sync, ticket, driver.now))

    def beat(self, member_id: str, generation: int, instance: str | None = None) -> ErrorCode:
        return self.driver.perform(
            lambda: self.machine.decide_heartbeat(
                self.group_id, MemberId(member_id), instance, generation, self.driver.now
            )
        )

    def leave(self, *leaving: tuple[str, str | None]) -> list[ErrorCode]:
        asked = [Leave(MemberId(member_id), instance) for member_id, instance in leaving]
        left = self.driver.perform(lambda: self.machine.decide_leave(self.group_id, asked, self.driver.now))
        return [each.error for each in left]

    def heartbeat(self, heartbeat: MemberHeartbeat) -> MemberAnswer:
        return self.driver.perform(
            lambda: self.machine.decide_member_heartbeat(self.group_id, heartbeat, self.driver.now)
        )

    def commit(
        self,
        *offsets: OffsetToCommit,
        member_id: str = NO_MEMBER,
        generation: int = NO_GENERATION,
        instance: str | None = None,
        retention_ms: int | None = None,
        knows_epochs: bool = True,
    ) -> Sequence[ErrorCode]:
        commit = Commit(MemberId(member_id), instance, generation, offsets, retention_ms, knows_epochs)
        return self.driver.perform(lambda: self.machine.decide_commit(self.group_id, commit, self.driver.now))

    def commit_in_transaction(
        self,
        producer_id: int,
        *offsets: OffsetToCommit,
        epoch: int = 0,
        member_id: str = NO_MEMBER,
        generation: int = NO_GENERATION,
        instance: str | None = None,
    ) -> Sequence[ErrorCode]:
        commit = Commit(MemberId(member_id), instance, generation, offsets)
        return self.driver.perform(
            lambda: self.machine.decide_commit_in_transaction(
                self.group_id, commit, ProducerId(producer_id), epoch, self.driver.now
            )
        )

    def committed(
        self,
        *partitions: tuple[str, int],
        member_id: str | None = None,
        epoch: int = -1,
        require_stable: bool = False,
    ) -> dict[tuple[str, int], int | ErrorCode | None]:
        """The committed offsets of the given partitions, or of all."""
        named = [TopicPartition(TopicName(topic), partition) for topic, partition in partitions]
        asked = OffsetQuery(named or None, None if member_id is None else MemberId(member_id), epoch, require_stable)
        found = self.driver.perform(lambda: self.machine.committed(self.group_id, asked))
        return {
            (where.topic, where.partition): error or (committed and committed.offset)
            for where, committed, error in found
        }

    def delete_offsets(self, *partitions: tuple[str, int]) -> Sequence[ErrorCode]:
        named = [TopicPartition(TopicName(topic), partition) for topic, partition in partitions]
        return self.driver.perform(lambda: self.machine.decide_delete_offsets(self.group_id, named))

    # -- initial states

    def stable_classic(self, member_id: str = "bob", *, topics: Iterable[str] = ("a",), assigned: bytes = b"") -> None:
        """A group of one member, at generation 1."""
        ticket = self.join(join_request(new_member_id=member_id, topics=topics))
        self.driver.pass_time(0)
        assert isinstance(ticket, int)
        assert self.answers[ticket].error is ErrorCode.NONE
        self.sync(member_id, 1, assignments={MemberId(member_id): assigned})
        assert self.classic.state is GroupState.STABLE

    def stable_consumer(self, member_id: str = "ann", *, topics: Iterable[str] = ("a",)) -> None:
        """A group of one member, at epoch 1."""
        assert self.heartbeat(heartbeat(member_id, topics=topics)).epoch == 1
        assert self.consumer.state is GroupState.STABLE

    def empty_consumer(self) -> None:
        self.stable_consumer()
        self.heartbeat(heartbeat("ann", -1))
        assert self.consumer.state is GroupState.EMPTY

    def empty_classic(self) -> None:
        self.stable_classic()
        self.leave(("bob", None))
        assert self.classic.state is GroupState.EMPTY


def offset(topic: str, partition: int, offset: int, *, topics: Topics | None = None, note: str = "") -> OffsetToCommit:
    known = None if topics is None else topics.by_name.get(TopicName(topic))
    return OffsetToCommit(TopicName(topic), partition, offset, -1, note, NO_TOPIC_ID if known is None else known.id)


def completing(group: OneGroup) -> None:
    group.join(join_request(new_member_id="bob"))
    group.driver.pass_time(0)
    assert group.state is GroupState.COMPLETING_REBALANCE


def preparing(group: OneGroup) -> None:
    group.stable_classic()
    group.join(join_request(new_member_id="cid"))
    assert group.state is GroupState.PREPARING_REBALANCE


def mixed(group: OneGroup) -> None:
    """A consumer group with ann, and bob who speaks the classic protocol; both are at epoch 2."""
    group.stable_consumer()
    group.join(join_request(new_member_id="bob"))
    group.heartbeat(heartbeat("ann", 1, owned={}))


def nothing(group: OneGroup) -> None:
    pass
