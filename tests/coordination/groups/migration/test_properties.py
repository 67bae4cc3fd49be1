"""A rolling upgrade, and back, with clients of both protocols that come, go, die and dawdle in any order: the group
changes its protocol under them, no partition has two owners, and once they behave everything has an owner."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headwater.config.group_defaults import GroupDefaults
from headwater.coordination.groups.consumer.commands import JOIN_EPOCH
from headwater.coordination.groups.consumer.group import ConsumerGroup
from headwater.coordination.groups.terms import GroupState
from headwater.errors import Refusal
from tests.coordination.groups.group_checks import LOST, check_owners, expect
from tests.coordination.groups.migration.clients import ROUNDS_MAX, ClassicClient, NewClient
from tests.support.coordination.consumer_driver import Topics
from tests.support.coordination.migration_driver import Shard


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
        """Restarts one client with the other protocol, as a rolling upgrade or its reversal does."""
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
            # All clients lost their connections.
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
