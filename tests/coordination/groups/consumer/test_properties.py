"""Members join, resubscribe, respond late, lose answers, vanish and return: no partition ever has two owners, and once
all members behave each reaches its target, even after the log was truncated anywhere."""

from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headwater.coordination.groups.assignment import Assignment
from headwater.coordination.groups.consumer.commands import JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH, MemberAnswer
from headwater.coordination.groups.terms import GroupState
from headwater.errors import ErrorCode, Refusal
from headwater.ids import MemberId, TopicId
from tests.coordination.groups.group_checks import LOST, check_owners, expect
from tests.support.coordination.consumer_driver import Driver, Topics, heartbeat

NAMES = ["a", "b", "c"]
SUBSCRIPTIONS = st.sampled_from([("a",), ("b",), ("a", "b"), ("c",), (), ("a", "b", "c")])
REGEXES = st.sampled_from(["a|c", ".*", "", None, None])
ROUNDS_MAX = 25


@dataclass
class Client:
    """A consumer's own view of its state."""

    member_id: str
    instance: str | None
    topics: tuple[str, ...]
    regex: str | None
    assignor: str | None
    epoch: int = JOIN_EPOCH
    is_changed: bool = True
    # Its assignment, and the partitions that it really owns: revocation takes a while.
    told: Assignment = field(default_factory=dict[TopicId, frozenset[int]])
    owned: Assignment = field(default_factory=dict[TopicId, frozenset[int]])

    def beat(self, driver: Driver, *, is_answer_lost: bool = False) -> None:
        request = heartbeat(
            self.member_id,
            self.epoch,
            topics=self.topics if self.is_changed or self.epoch == JOIN_EPOCH else None,
            regex=(self.regex or "") if self.is_changed or self.epoch == JOIN_EPOCH else None,
            owned=self.owned,
            instance=self.instance,
            assignor=self.assignor,
        )
        try:
            answer = driver.heartbeat(request)
        except Refusal as refusal:
            expect(refusal, *LOST, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNRELEASED_INSTANCE_ID)
            self.abandon()
            return
        if not is_answer_lost:
            self.hear(answer)

    def hear(self, answer: MemberAnswer) -> None:
        self.epoch = answer.epoch
        self.is_changed = False
        if answer.assignment is not None:
            self.told = answer.assignment

    def settle(self) -> None:
        self.owned = self.told

    def abandon(self) -> None:
        self.epoch, self.told, self.owned = JOIN_EPOCH, {}, {}
        self.is_changed = True


def converge(driver: Driver, clients: list[Client], topics: Topics) -> None:
    """From now on all members revoke at once and lose no answers."""
    membership = driver.group.roster
    for _ in range(ROUNDS_MAX):
        for client in clients:
            client.settle()
            client.beat(driver)
            check_owners(driver.group)
        driver.advance(10_000)
        ids = {client.member_id for client in clients}
        is_settled = all(
            client.epoch > JOIN_EPOCH and client.owned == membership.target_of(MemberId(client.member_id))
            for client in clients
        )
        if (
            driver.group.state in (GroupState.STABLE, GroupState.EMPTY)
            and is_settled
            and ids == set(membership.members)
        ):
            break
    else:
        raise AssertionError(f"not settled after {ROUNDS_MAX} rounds: {driver.group.describe()}")
    wanted = {
        (topic.id, partition)
        for name, topic in topics.by_name.items()
        if driver.group.is_subscribed_to(name)
        for partition in range(topic.partition_count)
    }
    owned = [(topic_id, each) for client in clients for topic_id, all_ in client.owned.items() for each in all_]
    assert len(owned) == len(set(owned))
    assert set(owned) == wanted


class Members(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.topics = Topics({"a": 3, "b": 2})
        self.driver = Driver(self.topics)
        self.clients: list[Client] = []
        self.born = 0

    @rule(
        topics=SUBSCRIPTIONS,
        regex=REGEXES,
        instance=st.sampled_from([None, None, "one", "two"]),
        assignor=st.sampled_from([None, "range", "uniform"]),
    )
    def come(self, topics: tuple[str, ...], regex: str | None, instance: str | None, assignor: str | None) -> None:
        if len(self.clients) >= 6 or (instance and any(client.instance == instance for client in self.clients)):
            return
        self.born += 1
        client = Client(f"m{self.born}", instance, topics, regex, assignor)
        client.beat(self.driver)
        self.clients.append(client)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), is_answer_lost=st.sampled_from([False, False, False, True]), is_settled=st.booleans())
    def beat(self, data: st.DataObject, is_answer_lost: bool, is_settled: bool) -> None:
        client = data.draw(st.sampled_from(self.clients))
        if is_settled:
            client.settle()
        client.beat(self.driver, is_answer_lost=is_answer_lost)

    @precondition(lambda self: self.clients)
    @rule()
    def everybody_beats(self) -> None:
        for client in self.clients:
            client.settle()
            client.beat(self.driver)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), topics=SUBSCRIPTIONS, regex=REGEXES)
    def change_subscription(self, data: st.DataObject, topics: tuple[str, ...], regex: str | None) -> None:
        client = data.draw(st.sampled_from(self.clients))
        client.topics, client.regex, client.is_changed = topics, regex, True
        client.beat(self.driver)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), is_for_a_while=st.booleans())
    def leave(self, data: st.DataObject, is_for_a_while: bool) -> None:
        client = data.draw(st.sampled_from(self.clients))
        self.clients.remove(client)
        is_static = is_for_a_while and client.instance is not None
        try:
            self.driver.heartbeat(
                heartbeat(client.member_id, LEAVE_STATIC_EPOCH if is_static else LEAVE_EPOCH, instance=client.instance)
            )
        except Refusal as refusal:
            expect(refusal, *LOST)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        self.clients.remove(data.draw(st.sampled_from(self.clients)))

    @rule(seconds=st.sampled_from([1, 20, 46, 61]))
    def wait(self, seconds: int) -> None:
        self.driver.advance(seconds * 1000)

    @rule(name=st.sampled_from(NAMES), more=st.integers(1, 3))
    def grow(self, name: str, more: int) -> None:
        known = self.topics.by_name.get(name)  # type: ignore[arg-type]
        self.topics.put(name, min(more + (known.partition_count if known else 0), 8))

    @rule(name=st.sampled_from(NAMES))
    def delete(self, name: str) -> None:
        if name in self.topics.by_name:
            self.topics.delete(name)

    @rule()
    def settle_down(self) -> None:
        converge(self.driver, self.clients, self.topics)

    @rule(data=st.data())
    def cut_the_log(self, data: st.DataObject) -> None:
        """A crash that loses some of the last events, but none that a member got an answer for."""
        log = self.driver.log
        cut = data.draw(st.integers(max(0, len(log) - 12), len(log)))
        self.driver = Driver(self.topics, log=log[:cut])
        members = self.driver.group.roster.members
        check_owners(self.driver.group)
        for client in self.clients:
            member = members.get(MemberId(client.member_id))
            if member is not None and member.current.epoch == client.epoch:
                client.told = client.owned = member.current.assigned
            client.is_changed = True
        converge(self.driver, self.clients, self.topics)

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        check_owners(self.driver.group)
        # The same holds for the partitions that clients really own, if they are members in their present or last epoch.
        seen: set[tuple[TopicId, int]] = set()
        members = self.driver.group.roster.members
        for client in self.clients:
            member = members.get(MemberId(client.member_id))
            if member is None or client.epoch not in (member.current.epoch, member.current.previous_epoch):
                continue
            for topic_id, partitions in client.owned.items():
                for partition in partitions:
                    assert (topic_id, partition) not in seen
                    seen.add((topic_id, partition))

    @invariant()
    def the_log_rebuilds_the_group(self) -> None:
        replayed, membership = Driver(self.topics, log=self.driver.log).group.roster, self.driver.group.roster
        for name in ("epoch", "metadata_hash", "assignment_epoch", "members", "targets", "regexes", "static_members"):
            assert getattr(replayed, name) == getattr(membership, name), name
        assert replayed.subscribers == membership.subscribers


Members.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestMembers = Members.TestCase
