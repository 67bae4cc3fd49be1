"""A rolling upgrade, and back, with clients of both protocols that come, go, die and dawdle in any order: the group
changes its protocol under them, no partition has two owners, and once they behave everything has an owner."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headwater.config.group_defaults import GroupDefaults
from headwater.coordination.decisions import Ticket
from headwater.coordination.groups.assignment import Assignment
from headwater.coordination.groups.classic.commands import JoinResult, SyncResult
from headwater.coordination.groups.consumer.commands import JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH
from headwater.coordination.groups.consumer.group import ConsumerGroup
from headwater.coordination.groups.terms import GroupState
from headwater.errors import ErrorCode, Refusal
from headwater.ids import MemberId, TopicId, TopicName
from headwater.protocol.consumer_protocol import read_assignment, read_subscription, write_assignment
from tests.coordination.groups.consumer.driver import Topics, heartbeat
from tests.coordination.groups.consumer.test_properties import LOST, check_owners, expect
from tests.coordination.groups.migration.driver import Shard, join_request

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
                # In this model a cooperative member tells of what it gave up when it joins again.
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
        """What others own goes to them, or to nobody in this round: a cooperative assignor takes two rounds to move."""
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


class Migration(RuleBasedStateMachine):
    @initialize(policy=st.sampled_from(["bidirectional", "bidirectional", "upgrade"]))
    def begin(self, policy: str) -> None:
        config = GroupDefaults(group_initial_rebalance_delay_ms=0, group_consumer_migration_policy=policy)
        self.shard = Shard(Topics({"a": 4, "b": 3}), config)
        self.clients: list[NewClient | ClassicClient] = []
        self.born = 0

    @rule(is_new=st.booleans(), is_cooperative=st.booleans(), instance=st.sampled_from([None, None, "one"]))
    def come(self, is_new: bool, is_cooperative: bool, instance: str | None) -> None:
        if len(self.clients) >= 4 or (instance and any(client.instance == instance for client in self.clients)):
            return
        self.born += 1
        name = f"m{self.born}"
        client = NewClient(name, instance) if is_new else ClassicClient(name, instance, is_cooperative)
        self.clients.append(client)
        client.act(self.shard)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), times=st.integers(1, 4))
    def act(self, data: st.DataObject, times: int) -> None:
        client = data.draw(st.sampled_from(self.clients))
        for _ in range(times):
            client.act(self.shard)

    @rule(times=st.integers(1, 6))
    def all_act(self, times: int) -> None:
        for _ in range(times):
            for client in self.clients:
                client.act(self.shard)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), is_silent=st.booleans())
    def go(self, data: st.DataObject, is_silent: bool) -> None:
        client = data.draw(st.sampled_from(self.clients))
        self.clients.remove(client)
        if not is_silent:
            try:
                client.leave(self.shard)
            except Refusal as refusal:
                expect(refusal, *LOST)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def change_protocol(self, data: st.DataObject) -> None:
        """What a rolling upgrade, or its reversal, does to one client."""
        client = data.draw(st.sampled_from(self.clients))
        self.go_quietly(client)
        self.born += 1
        name = f"m{self.born}"
        other = (
            ClassicClient(name, client.instance, is_cooperative=True)
            if isinstance(client, NewClient)
            else NewClient(name, client.instance)
        )
        self.clients.append(other)
        other.act(self.shard)

    def go_quietly(self, client: NewClient | ClassicClient) -> None:
        self.clients.remove(client)
        try:
            # A static member of the classic protocol does not leave when it stops.
            if client.instance is None or isinstance(client, NewClient):
                client.leave(self.shard)
        except Refusal as refusal:
            expect(refusal, *LOST)

    @rule(seconds=st.sampled_from([1, 15, 31, 51]))
    def wait(self, seconds: int) -> None:
        self.shard.advance(seconds * 1000)

    @rule(data=st.data())
    def cut_the_log(self, data: st.DataObject) -> None:
        log = self.shard.log
        cut = data.draw(st.integers(max(0, len(log) - 20), len(log)))
        self.shard = Shard(self.shard.topics, self.shard.config, log[:cut])
        for client in self.clients:
            # Everybody lost the connection.
            if isinstance(client, ClassicClient):
                client.waits_for = None
                client.step = "join"
            else:
                client.epoch, client.owned = JOIN_EPOCH, {}
        self.settle_down()

    @rule()
    def settle_down(self) -> None:
        shard = self.shard
        for _ in range(ROUNDS_MAX):
            for _ in range(4):
                for client in self.clients:
                    client.act(shard)
                    if isinstance(shard.group, ConsumerGroup):
                        check_owners(shard.group)
            shard.advance(4000)
            owned = [each for client in self.clients for each in client.owned_partitions(shard)]
            has_all = len(owned) == (7 if self.clients else 0) and len(set(owned)) == len(owned)
            if has_all and (shard.group is None or shard.group.state in (GroupState.STABLE, GroupState.EMPTY)):
                break
        else:
            raise AssertionError(f"not settled: {shard.group and shard.group.describe()} {self.clients}")
        has_new = any(isinstance(client, NewClient) for client in self.clients)
        if has_new:
            assert isinstance(shard.group, ConsumerGroup)

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        if isinstance(self.shard.group, ConsumerGroup):
            check_owners(self.shard.group)

    @invariant()
    def the_log_is_of_the_same_group(self) -> None:
        loaded = Shard(self.shard.topics, self.shard.config, self.shard.log).group
        group = self.shard.group
        if isinstance(group, ConsumerGroup):
            assert isinstance(loaded, ConsumerGroup)
            assert loaded.roster.members == group.roster.members
            assert loaded.roster.targets == group.roster.targets


Migration.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestMigration = Migration.TestCase
