"""Several groups of both protocols on one machine: clients come, go, change their protocol and commit, also inside
transactions, administrators delete, time passes, and the log is cut or compacted. What holds at every step, and what
every log rebuilds."""

from collections.abc import Callable, Sequence
from random import Random
from typing import cast

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headwater.config.group_defaults import GroupDefaults
from headwater.coordination.groups.classic.commands import NO_GENERATION
from headwater.coordination.groups.consumer.commands import JOIN_EPOCH
from headwater.coordination.groups.consumer.group import ConsumerGroup
from headwater.coordination.groups.offsets.events import OffsetForgotten
from headwater.coordination.groups.terms import NO_MEMBER, GroupState
from headwater.errors import ErrorCode, Refusal
from headwater.ids import MemberId, TopicName
from tests.coordination.groups.group_checks import LOST, expect
from tests.coordination.groups.machine_checks import check_all_owners, check_offsets_have_groups, check_rebuilt
from tests.coordination.groups.machine_driver import MachineDriver, Record
from tests.coordination.groups.migration.clients import ROUNDS_MAX, ClassicClient, NewClient
from tests.coordination.groups.one_group import OneGroup, offset
from tests.support.coordination.consumer_driver import Topics
from tests.support.coordination.migration_driver import Shard

Client = NewClient | ClassicClient

GROUPS = ["one", "two", "three"]
# Clients subscribe to these, which only grow; offsets are committed for others as well, which come and go.
SUBSCRIBED = ["a", "b"]
FLEETING = ["c", "d"]
RETENTION_MINUTES = 3
COMMIT_REFUSALS = (
    *LOST,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.REBALANCE_IN_PROGRESS,
)

Where = tuple[str, str, int]

groups = st.sampled_from(GROUPS)
producers = st.integers(1, 3)
partitions = st.tuples(st.sampled_from(SUBSCRIBED + FLEETING), st.integers(0, 1))


def requests(group: OneGroup) -> Shard:
    """As the clients of the migration's tests know a group: by what it can be asked."""
    return cast("Shard", group)


def identity(client: Client) -> tuple[str, int]:
    if isinstance(client, NewClient):
        return client.name, client.epoch
    return client.member_id, client.generation


class Histories(RuleBasedStateMachine):
    @initialize(
        policy=st.sampled_from(["bidirectional", "bidirectional", "upgrade"]),
        kinds=st.lists(st.sampled_from([NewClient, ClassicClient]), min_size=2, max_size=6),
    )
    def begin(self, policy: str, kinds: Sequence[type[Client]]) -> None:
        config = GroupDefaults(
            group_initial_rebalance_delay_ms=0,
            group_consumer_migration_policy=policy,
            offsets_retention_minutes=RETENTION_MINUTES,
        )
        self.topics = Topics({"a": 3, "b": 2, "c": 2, "d": 2})
        self.driver = MachineDriver(self.topics, config)
        self._begin_a_log()
        self.clients: dict[str, list[Client]] = {name: [] for name in GROUPS}
        self.compacted_count = 0
        self.born = 0
        # What was committed last and not taken back, beside what expires; and where in the log.
        self.offsets: dict[Where, int] = {}
        self.places: dict[Where, int] = {}
        # What is committed in transactions that are open, and where in the log.
        self.pending: dict[int, dict[Where, tuple[int, int]]] = {}
        self.place = 0
        for index, kind in enumerate(kinds):
            self.come(GROUPS[index % 2], is_new=kind is NewClient, is_cooperative=True, instance=None)
        for name in GROUPS:
            self.act(name, times=4)

    def group(self, name: str) -> OneGroup:
        return self.driver.group(name)

    def _picked(self, name: str, pick: int) -> Sequence[Client]:
        """One client of the group, if it has any."""
        clients = self.clients[name]
        return [clients[pick % len(clients)]] if clients else []

    # -- members

    @rule(
        name=groups, is_new=st.booleans(), is_cooperative=st.booleans(), instance=st.sampled_from([None, None, "one"])
    )
    def come(self, name: str, is_new: bool, is_cooperative: bool, instance: str | None) -> None:
        clients = self.clients[name]
        if len(clients) >= 3 or (instance and any(client.instance == instance for client in clients)):
            return
        self.born += 1
        born = f"m{self.born}"
        client = NewClient(born, instance) if is_new else ClassicClient(born, instance, is_cooperative)
        clients.append(client)
        client.act(requests(self.group(name)))

    @rule(name=groups, times=st.integers(1, 6))
    def act(self, name: str, times: int) -> None:
        for _ in range(times):
            for client in self.clients[name]:
                client.act(requests(self.group(name)))

    @rule(name=groups, pick=st.integers(0, 2), times=st.integers(1, 4))
    def one_acts(self, name: str, pick: int, times: int) -> None:
        for client in self._picked(name, pick):
            for _ in range(times):
                client.act(requests(self.group(name)))

    @rule(name=groups, pick=st.integers(0, 2), is_silent=st.booleans())
    def go(self, name: str, pick: int, is_silent: bool) -> None:
        for client in self._picked(name, pick):
            self.clients[name].remove(client)
            if not is_silent:
                try:
                    client.leave(requests(self.group(name)))
                except Refusal as refusal:
                    expect(refusal, *LOST)

    # -- offsets

    @rule(
        name=groups, pick=st.integers(0, 2), where=partitions, at=st.integers(0, 1000), lag=st.sampled_from([0, 0, 1])
    )
    def commit(self, name: str, pick: int, where: tuple[str, int], at: int, lag: int) -> None:
        group = self.group(name)
        for client in self._picked(name, pick) if self._is_topic(where) else ():
            member_id, generation = identity(client)
            is_member = group.group is not None and _has_member(group, member_id)
            try:
                self._commit(group, where, at, member_id, generation - lag, client.instance)
            except Refusal as refusal:
                expect(refusal, *COMMIT_REFUSALS)
            else:
                assert not (is_member and lag), "a member that is behind has committed"

    @rule(name=groups, where=partitions, at=st.integers(0, 1000), retention_ms=st.sampled_from([None, None, 5000]))
    def commit_from_outside(self, name: str, where: tuple[str, int], at: int, retention_ms: int | None) -> None:
        if not self._is_topic(where):
            return
        group = self.group(name)
        is_free = group.state in (None, GroupState.EMPTY)
        try:
            self._commit(group, where, at, NO_MEMBER, NO_GENERATION, None, retention_ms)
        except Refusal as refusal:
            expect(refusal, ErrorCode.UNKNOWN_MEMBER_ID)
            assert not is_free
        else:
            assert is_free

    def _is_topic(self, where: tuple[str, int]) -> bool:
        """The broker accepts offsets of topics that exist only."""
        return where[0] in self.topics.by_name

    def _commit(
        self,
        group: OneGroup,
        where: tuple[str, int],
        at: int,
        member_id: str,
        generation: int,
        instance: str | None,
        retention_ms: int | None = None,
    ) -> None:
        group.commit(
            offset(*where, at, topics=self.topics),
            member_id=member_id,
            generation=generation,
            instance=instance,
            retention_ms=retention_ms,
        )
        self._count((group.group_id, *where), at, self._next_place())

    def _next_place(self) -> int:
        self.place += 1
        return self.place

    def _count(self, where: Where, at: int, place: int) -> None:
        """Of all that is committed for a partition the last in the log counts, whenever its transaction ends."""
        if place > self.places.get(where, 0):
            self.offsets[where], self.places[where] = at, place

    def _forget(self, is_forgotten: Callable[[Where], bool]) -> None:
        for known in (self.offsets, self.places, *self.pending.values()):
            for where in [*filter(is_forgotten, known)]:
                del known[where]

    @rule(name=groups, where=partitions)
    def delete_offset(self, name: str, where: tuple[str, int]) -> None:
        try:
            (code,) = self.group(name).delete_offsets(where)
        except Refusal as refusal:
            expect(refusal, ErrorCode.GROUP_ID_NOT_FOUND)
            return
        if code is ErrorCode.NONE:
            self._forget(lambda each: each == (name, *where))

    # -- transactions

    @rule(name=groups, producer=producers, pick=st.integers(0, 2), where=partitions, at=st.integers(0, 1000))
    def commit_in_transaction(self, name: str, producer: int, pick: int, where: tuple[str, int], at: int) -> None:
        for client in self._picked(name, pick):
            self._commit_in_transaction(self.group(name), producer, where, at, *identity(client), client.instance)

    @rule(name=groups, producer=producers, where=partitions, at=st.integers(0, 1000))
    def commit_in_transaction_for_nobody(self, name: str, producer: int, where: tuple[str, int], at: int) -> None:
        self._commit_in_transaction(self.group(name), producer, where, at, NO_MEMBER, NO_GENERATION, None)

    def _commit_in_transaction(
        self,
        group: OneGroup,
        producer: int,
        where: tuple[str, int],
        at: int,
        member_id: str,
        generation: int,
        instance: str | None,
    ) -> None:
        if not self._is_topic(where):
            return
        committed = offset(*where, at, topics=self.topics)
        try:
            group.commit_in_transaction(
                producer, committed, member_id=member_id, generation=generation, instance=instance
            )
        except Refusal as refusal:
            expect(refusal, *LOST, ErrorCode.ILLEGAL_GENERATION)
        else:
            self.pending.setdefault(producer, {})[group.group_id, *where] = at, self._next_place()

    @rule(producer=producers, is_committed=st.booleans())
    def end_transaction(self, producer: int, is_committed: bool) -> None:
        self.driver.end_transaction(producer, is_committed=is_committed)
        for where, (at, place) in self.pending.pop(producer, {}).items():
            if is_committed:
                self._count(where, at, place)

    # -- administration

    @rule(name=groups)
    def delete(self, name: str) -> None:
        try:
            self.driver.delete(name)
        except Refusal as refusal:
            expect(refusal, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NON_EMPTY_GROUP)
            return
        assert self.group(name).group is None
        self._forget(lambda where: where[0] == name)

    @rule(name=st.sampled_from(FLEETING), is_noticed=st.booleans())
    def delete_topic(self, name: str, is_noticed: bool) -> None:
        if name not in self.topics.by_name:
            self.topics.put(name, 2)
            return
        self.topics.delete(name)
        if not is_noticed:
            # The broker ends in between.
            self.restart()
        self.driver.forget_topics(name)
        self._forget(lambda where: where[1] == name)

    @rule(name=st.sampled_from(SUBSCRIBED))
    def grow(self, name: str) -> None:
        self.topics.put(name, min(self.topics.by_name[TopicName(name)].partition_count + 1, 5))
        for client in (client for clients in self.clients.values() for client in clients):
            # The leader of a classic group notices by itself, and whoever might be one asks for a rebalance.
            if isinstance(client, ClassicClient) and client.step == "beat":
                client.step = "join"

    @rule()
    def expire(self) -> None:
        before = self.driver.offsets()
        for event in self.driver.expire():
            if isinstance(event, OffsetForgotten):
                key = event.group_id, event.topic, event.partition
                committed = before[key]
                least_ms = RETENTION_MINUTES * 60_000 if committed.expire_timestamp_ms == -1 else 5000
                assert self.driver.now.wall_ms - committed.commit_timestamp_ms >= least_ms
                assert key not in self.driver.pending()
                self._forget(key.__eq__)
        for group_id, group in self.driver.machine.groups.items():
            assert group.state is not GroupState.EMPTY or self.driver.machine.offsets.has_offsets(group_id)

    # -- time and restarts

    @rule(seconds=st.sampled_from([1, 15, 31, 51, 200]))
    def wait(self, seconds: int) -> None:
        self.driver.pass_time(seconds * 1000)

    @rule()
    def wait_for_a_deadline(self) -> None:
        due_ms = self.driver.machine.next_deadline_ms()
        if due_ms is not None:
            self.driver.pass_time(max(0, due_ms - self.driver.now.monotonic_ms))

    @rule()
    def restart(self) -> None:
        self._go_on_from(self.driver.records)

    @rule(seed=st.integers(0, 100))
    def compact(self, seed: int) -> None:
        random = Random(seed)
        self._go_on_from(self.driver.compacted(random, tombstones_kept=random.random()))
        self.compacted_count = len(self.driver.records)

    @rule(lost=st.integers(1, 30))
    def cut_the_log(self, lost: int) -> None:
        """A crash, after which some of the last events are missing; what has been compacted was on disk before."""
        self._go_on_from(self.driver.records[: max(self.compacted_count, len(self.driver.records) - lost)])
        self.offsets = {key: committed.offset for key, committed in self.driver.offsets().items()}
        self.places = dict.fromkeys(self.offsets, self._next_place())
        self.pending = {}
        for where, pending in self.driver.pending().items():
            for producer, at in pending:
                self.pending.setdefault(producer, {})[where] = at, self._next_place()
        self.settle_down()

    def _go_on_from(self, records: Sequence[Record]) -> None:
        self.driver = self.driver.restarted(records)
        self._begin_a_log()
        for event in self.driver.log[len(records) :]:
            if isinstance(event, OffsetForgotten):
                # Of a topic that had the name before.
                self._forget((event.group_id, event.topic, event.partition).__eq__)
        for client in (client for clients in self.clients.values() for client in clients):
            # Everybody lost the connection.
            if isinstance(client, ClassicClient):
                client.waits_for, client.step = None, "join"
            else:
                client.epoch, client.owned = JOIN_EPOCH, {}

    def _begin_a_log(self) -> None:
        # One machine reads on as the log grows. What is compacted has to be read from its beginning.
        self.reader = self.driver.replayed([])
        self.reader_of_compacted = self.reader
        self.compacted_at = -1

    @rule()
    def settle_down(self) -> None:
        """From now on all behave: each group gets to where every partition has one owner."""
        for _ in range(ROUNDS_MAX):
            for _ in range(4):
                for name, clients in self.clients.items():
                    for client in clients:
                        client.act(requests(self.group(name)))
                self.no_partition_has_two_owners()
            self.driver.pass_time(4000)
            if all(map(self._is_settled, GROUPS)):
                return
        raise AssertionError(f"not settled: {self.driver.machine.listings()} {self.clients}")

    def _is_settled(self, name: str) -> bool:
        group, clients = self.group(name), self.clients[name]
        count = sum(topic.partition_count for topic in self.topics.by_name.values() if topic.name in SUBSCRIBED)
        owned = [each for client in clients for each in client.owned_partitions(requests(group))]
        return (
            len(owned) == len(set(owned)) == (count if clients else 0)
            and group.state in (None, GroupState.STABLE, GroupState.EMPTY)
            and (isinstance(group.group, ConsumerGroup) or not any(isinstance(each, NewClient) for each in clients))
        )

    # -- what holds

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        check_all_owners(self.driver)

    @invariant()
    def what_was_committed_is_known(self) -> None:
        assert {key: committed.offset for key, committed in self.driver.offsets().items()} == self.offsets

    @invariant()
    def what_is_pending_can_still_count(self) -> None:
        expected: dict[Where, list[tuple[int, int]]] = {}
        places = {(producer, *where): at for producer, known in self.pending.items() for where, at in known.items()}
        for (producer, *key), (at, place) in sorted(places.items(), key=lambda item: item[1][1]):
            where = cast("Where", tuple(key))
            if place > self.places.get(where, 0):
                expected.setdefault(where, []).append((producer, at))
        assert self.driver.pending() == expected
        known = self.offsets.keys() | expected.keys()
        for name in {where[0] for where in known}:
            of_group = [where[1:] for where in known if where[0] == name]
            for where, found in self.group(name).committed(*of_group, require_stable=True).items():
                assert (found is ErrorCode.UNSTABLE_OFFSET_COMMIT) == ((name, *where) in expected)

    @invariant()
    def every_offset_belongs_to_a_group(self) -> None:
        check_offsets_have_groups(self.driver)

    @invariant()
    def every_deadline_and_every_wait_has_a_group(self) -> None:
        machine = self.driver.machine
        assert {group_id for group_id, _, _ in self.driver.deadlines} <= machine.groups.keys()
        if self.driver.waiting:
            assert machine.next_deadline_ms() is not None, "somebody might wait for ever"

    @invariant()
    def the_log_rebuilds_what_it_must(self) -> None:
        self.reader.read_on(self.driver.records)
        check_rebuilt(self.reader, self.driver)

    @invariant()
    def a_compacted_log_rebuilds_the_same(self) -> None:
        if self.compacted_at != len(self.driver.records):
            self.compacted_at = len(self.driver.records)
            random = Random(self.compacted_at)
            compacted = self.driver.compacted(random, tombstones_kept=random.choice((0.0, 0.5, 1.0)))
            self.reader_of_compacted = self.driver.replayed(compacted)
        check_rebuilt(self.reader_of_compacted, self.driver)

    def teardown(self) -> None:
        if not hasattr(self, "driver"):
            return
        grown = self.driver.replayed([])
        for event in self.driver.log:
            grown.machine.apply(event)
            check_all_owners(grown)
            check_offsets_have_groups(grown)
            # It only has to be possible at every place.
            grown.machine.decide_loaded(grown.now)
        for producer in list(self.pending):
            self.end_transaction(producer, is_committed=False)
        self.driver.pass_time(3_600_000)
        assert not self.driver.waiting
        assert all(group.state is GroupState.EMPTY for group in self.driver.machine.groups.values())
        assert not self.driver.deadlines
        self.driver.expire()
        assert not self.driver.machine.groups, "nothing is left of groups that nobody uses"
        assert not self.driver.offsets()


def _has_member(group: OneGroup, member_id: str) -> bool:
    if isinstance(group.group, ConsumerGroup):
        return MemberId(member_id) in group.consumer.roster.members
    return MemberId(member_id) in group.classic.roster.members


Histories.TestCase.settings = settings(
    max_examples=50,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestHistories = Histories.TestCase
