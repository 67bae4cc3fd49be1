"""Clients of both protocols, with their own view of the group while its protocol changes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.coordination.decisions import Ticket
from headwater.coordination.groups.assignment import Assignment
from headwater.coordination.groups.classic.commands import JoinResult, SyncResult
from headwater.coordination.groups.consumer.commands import JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH
from headwater.errors import ErrorCode, Refusal
from headwater.ids import MemberId, TopicId, TopicName
from headwater.protocol.consumer_protocol import read_assignment, read_subscription, write_assignment
from tests.coordination.groups.group_checks import LOST, expect
from tests.support.coordination.consumer_driver import heartbeat
from tests.support.coordination.migration_driver import Shard, join_request

ROUNDS_MAX = 40


@dataclass
class NewClient:
    name: str
    instance: str | None
    epoch: int = JOIN_EPOCH
    owned: Assignment = field(default_factory=dict[TopicId, frozenset[int]])

    def act(self, shard: Shard) -> None:
        topics = ["a", "b"] if self.epoch == JOIN_EPOCH else None
        request = heartbeat(self.name, self.epoch, topics=topics, owned=self.owned, instance=self.instance)
        try:
            answer = shard.heartbeat(request)
        except Refusal as refusal:
            expect(refusal, *LOST, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNRELEASED_INSTANCE_ID)
            self.epoch, self.owned = JOIN_EPOCH, {}
            return
        self.epoch = answer.epoch
        if answer.assignment is not None:
            self.owned = answer.assignment

    def leave(self, shard: Shard) -> None:
        shard.heartbeat(
            heartbeat(self.name, LEAVE_EPOCH if self.instance is None else LEAVE_STATIC_EPOCH, instance=self.instance)
        )

    def owned_partitions(self, shard: Shard) -> set[tuple[str, int]]:
        by_id = shard.topics.by_id
        return {(by_id[topic_id].name, number) for topic_id, numbers in self.owned.items() for number in numbers}


@dataclass
class ClassicClient:
    """Joins, syncs and sends heartbeats; as the leader of a classic group it deals the partitions out in turn."""

    name: str
    instance: str | None
    is_cooperative: bool
    births: int = 0
    member_id: str = ""
    generation: int = -1
    waits_for: Ticket | None = None
    leads: JoinResult | None = None
    # "join", "sync" or "beat": what it does next.
    step: str = "join"
    owned: Mapping[str, list[int]] = field(default_factory=dict[str, list[int]])

    def act(self, shard: Shard) -> None:
        try:
            if self.waits_for is not None:
                if self.waits_for in shard.answers:
                    answer, self.waits_for = shard.answers[self.waits_for], None
                    self._hear(shard, answer)
            elif self.step == "beat":
                if shard.beat(self.member_id, self.generation, self.instance) is ErrorCode.REBALANCE_IN_PROGRESS:
                    self._join(shard)
            elif self.step == "sync":
                self._sync(shard)
            else:
                self._join(shard)
        except Refusal as refusal:
            expect(refusal, *LOST, ErrorCode.ILLEGAL_GENERATION)
            self._start_over(is_unknown=refusal.code is not ErrorCode.ILLEGAL_GENERATION)

    def leave(self, shard: Shard) -> None:
        shard.leave((self.member_id, self.instance))

    def owned_partitions(self, shard: Shard) -> set[tuple[str, int]]:
        return {(name, number) for name, numbers in self.owned.items() for number in numbers}

    def _start_over(self, *, is_unknown: bool) -> None:
        self.step, self.owned, self.leads = "join", {}, None
        if is_unknown:
            self.member_id = ""

    def _join(self, shard: Shard) -> None:
        self.step, self.leads = "join", None
        if not self.is_cooperative:
            self.owned = {}
        self.births += 1
        result = shard.join(
            join_request(
                self.member_id,
                topics=["a", "b"],
                owned=self.owned,
                instance=self.instance,
                new_member_id=f"{self.name}-{self.births}",
                is_member_id_required=True,
                protocols=["sticky", "range"],
            )
        )
        if isinstance(result, JoinResult):
            self._hear(shard, result)
        else:
            self.waits_for = result

    def _sync(self, shard: Shard) -> None:
        assignments = self._deal(shard, self.leads) if self.leads is not None else {}
        result = shard.sync(self.member_id, self.generation, instance=self.instance, assignments=assignments)
        if isinstance(result, SyncResult):
            self._hear(shard, result)
        else:
            self.waits_for = result

    def _hear(self, shard: Shard, answer: JoinResult | SyncResult) -> None:
        if isinstance(answer, SyncResult):
            if answer.error is ErrorCode.NONE:
                told = read_assignment(answer.assignment).partitions if answer.assignment else {}
                told = {str(name): list(numbers) for name, numbers in told.items()}
                # In this model a cooperative member reports revoked partitions when it rejoins.
                is_less = any(set(numbers) - set(told.get(name, ())) for name, numbers in self.owned.items())
                self.owned, self.step = told, "join" if is_less and self.is_cooperative else "beat"
            else:
                self._start_over(is_unknown=answer.error is ErrorCode.UNKNOWN_MEMBER_ID)
        elif answer.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        elif answer.error is ErrorCode.NONE:
            self.member_id, self.generation = answer.member_id, answer.generation
            self.leads = answer if answer.leader == answer.member_id else None
            self.step = "sync"
        else:
            self._start_over(is_unknown=answer.error is not ErrorCode.REBALANCE_IN_PROGRESS)

    def _deal(self, shard: Shard, generation: JoinResult) -> Mapping[MemberId, bytes]:
        """Partitions of other owners stay theirs or are left out: a cooperative assignor moves in two rounds."""
        owners = {
            (name, number): member.member_id
            for member in generation.members
            for name, numbers in read_subscription(member.metadata).owned_partitions.items()
            for number in numbers
        }
        dealt: dict[MemberId, dict[TopicName, list[int]]] = {member.member_id: {} for member in generation.members}
        ids = sorted(dealt)
        everything = [(name, number) for name in ("a", "b") for number in range(_count(shard, name))]
        for index, (name, number) in enumerate(everything):
            wanted = ids[index % len(ids)]
            if owners.get((TopicName(name), number), wanted) == wanted:
                dealt[wanted].setdefault(TopicName(name), []).append(number)
        return {member_id: write_assignment(partitions) for member_id, partitions in dealt.items()}


def _count(shard: Shard, name: str) -> int:
    return shard.topics.by_name[TopicName(name)].partition_count
