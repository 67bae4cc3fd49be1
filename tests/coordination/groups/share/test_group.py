"""What share groups decide, through the machine that holds them."""

from collections.abc import Callable

import pytest

from headwater.config.group import GroupConfig
from headwater.config.group_defaults import GroupDefaults
from headwater.coordination.decisions import VOLATILE_TYPES, Decision, Now, Ticket
from headwater.coordination.groups.assignment import Assignment
from headwater.coordination.groups.machine import GroupMachine
from headwater.coordination.groups.offsets.commands import Commit, OffsetQuery
from headwater.coordination.groups.share.commands import ShareAnswer, ShareHeartbeat
from headwater.coordination.groups.share.events import ShareCurrentStored, ShareGroupStored, ShareMemberForgotten
from headwater.coordination.groups.terms import GroupListing, GroupState, GroupType
from headwater.errors import ErrorCode, Refusal
from headwater.ids import GroupId, MemberId, TopicName, TopicPartition
from tests.coordination.groups.one_group import offset
from tests.support.coordination.consumer_driver import Topics
from tests.support.coordination.consumer_driver import heartbeat as consumer_heartbeat
from tests.support.coordination.migration_driver import join_request

GROUP = GroupId("billing")
SESSION_MS, INTERVAL_MS = 45_000, 5000


class Driver:
    def __init__(self, config: GroupDefaults | None = None) -> None:
        self.config = config or GroupDefaults()
        self.topics = Topics({"orders": 3, "refunds": 1})
        self.log: list[object] = []
        self.monotonic_ms = 0
        self.machine = self._new()

    def _new(self) -> GroupMachine:
        group_config = GroupConfig.from_overrides({}, self.config)
        return GroupMachine(self.config, lambda _: group_config, self.topics, lambda: True, lambda: 1 << 30)

    @property
    def now(self) -> Now:
        return Now(1_700_000_000_000, self.monotonic_ms)

    def run(self, decide: Callable[[], Decision[object]]) -> object:
        decision = decide()
        assert decision == decide(), "deciding must not change the machine"
        for event in decision.events:
            self.machine.apply(event)
            if type(event) not in VOLATILE_TYPES:
                self.log.append(event)
        return decision.result

    def beat(
        self, member_id: str, epoch: int = 0, *topics: str, rack: str | None = None, group_id: GroupId = GROUP
    ) -> ShareAnswer:
        names = tuple(map(TopicName, topics)) or None
        heartbeat = ShareHeartbeat(MemberId(member_id), epoch, rack, names, "client", "/10.0.0.1")
        answer = self.run(lambda: self.machine.decide_share_heartbeat(group_id, heartbeat, self.now))
        assert isinstance(answer, ShareAnswer)
        return answer

    def advance(self, milliseconds: int) -> None:
        self.monotonic_ms += milliseconds
        while (due_ms := self.machine.next_deadline_ms()) is not None and due_ms <= self.monotonic_ms:
            self.run(lambda: self.machine.decide_due(self.now))

    def restart(self) -> None:
        self.machine = self._new()
        for event in self.log:
            self.machine.apply(event)
        self.run(lambda: self.machine.decide_loaded(self.now))

    def partitions(self, topic: str, *indexes: int) -> Assignment:
        return {self.topics.id_of(topic): frozenset(indexes)}


def refusal_of(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(Refusal) as refused:
        call()
    return refused.value.code


def test_a_member_that_joins_has_its_assignment_at_once() -> None:
    driver = Driver()
    assert driver.beat("ann", 0, "orders") == ShareAnswer(
        MemberId("ann"), 1, INTERVAL_MS, driver.partitions("orders", 0, 1, 2)
    )
    assert driver.beat("ann", 1) == ShareAnswer(MemberId("ann"), 1, INTERVAL_MS)
    assert driver.machine.listings() == [GroupListing(GROUP, "share", GroupState.STABLE, GroupType.SHARE)]


def test_a_heartbeat_without_news_writes_nothing() -> None:
    driver = Driver()
    driver.beat("ann", 0, "orders")
    written = len(driver.log)
    driver.beat("ann", 1)
    driver.beat("ann", 1, "orders")
    assert len(driver.log) == written


def test_another_member_takes_its_share_and_the_first_learns_of_it_with_its_next_heartbeat() -> None:
    driver = Driver()
    driver.beat("ann", 0, "orders")
    assert driver.beat("bob", 0, "orders").assignment == driver.partitions("orders", 2)
    assert driver.beat("ann", 1) == ShareAnswer(MemberId("ann"), 2, INTERVAL_MS, driver.partitions("orders", 0, 1))


def test_an_answer_that_was_lost_is_given_again() -> None:
    driver = Driver()
    driver.beat("ann", 0, "orders")
    driver.beat("bob", 0, "orders")
    told = driver.beat("ann", 1)
    assert driver.beat("ann", 1) == told
    assert driver.beat("ann", 0, "orders") == told


def test_more_members_than_partitions_share_them() -> None:
    driver = Driver()
    for name in ("ann", "bob", "cid"):
        assert driver.beat(name, 0, "refunds").assignment == driver.partitions("refunds", 0)


def test_a_changed_subscription_and_a_changed_topic_change_the_assignment() -> None:
    driver = Driver()
    driver.beat("ann", 0, "orders")
    assert driver.beat("ann", 1, "refunds").assignment == driver.partitions("refunds", 0)
    driver.topics.put("refunds", 2)
    assert driver.beat("ann", 2) == ShareAnswer(MemberId("ann"), 3, INTERVAL_MS, driver.partitions("refunds", 0, 1))
    driver.topics.delete("refunds")
    assert driver.beat("ann", 3).assignment == {}


def test_a_member_that_leaves_or_falls_silent_makes_room() -> None:
    driver = Driver()
    driver.beat("ann", 0, "orders")
    driver.beat("bob", 0, "orders")
    driver.beat("ann", 1)
    assert driver.beat("bob", -1) == ShareAnswer(MemberId("bob"), -1, 0)
    assert driver.beat("ann", 2).assignment == driver.partitions("orders", 0, 1, 2)
    driver.advance(SESSION_MS)
    assert driver.machine.describe_share(GROUP).members == []
    assert driver.machine.groups[GROUP].state is GroupState.EMPTY
    assert driver.machine.weight == 0
    assert refusal_of(lambda: driver.beat("ann", 3)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_group_is_kept_until_it_is_deleted() -> None:
    driver = Driver()
    driver.beat("ann", 0, "orders")
    assert refusal_of(lambda: driver.machine.decide_delete(GROUP)) is ErrorCode.NON_EMPTY_GROUP
    driver.beat("ann", -1)
    driver.run(lambda: driver.machine.decide_expire(Now(1 << 60, 0)))
    assert GROUP in driver.machine.groups
    driver.run(lambda: driver.machine.decide_delete(GROUP))
    driver.restart()
    assert driver.machine.groups == {}


def test_an_administrator_may_begin_a_group_before_its_first_member_comes() -> None:
    driver = Driver()
    driver.run(lambda: driver.machine.decide_restart_share_group(GROUP))
    assert driver.machine.listings() == [GroupListing(GROUP, "share", GroupState.EMPTY, GroupType.SHARE)]
    driver.restart()
    driver.run(lambda: driver.machine.decide_restart_share_group(GROUP))
    assert driver.beat("ann", 0, "orders").epoch == 1
    code = refusal_of(lambda: driver.machine.decide_restart_share_group(GROUP))
    assert code is ErrorCode.NON_EMPTY_GROUP


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(3, ErrorCode.FENCED_MEMBER_EPOCH), (-2, ErrorCode.INVALID_REQUEST)],
)
def test_a_wrong_epoch_is_refused(epoch: int, code: ErrorCode) -> None:
    driver = Driver()
    driver.beat("ann", 0, "orders")
    driver.beat("bob", 0, "orders")
    assert refusal_of(lambda: driver.beat("bob", epoch)) is code


def test_an_epoch_that_is_too_old_is_fenced() -> None:
    driver = Driver()
    driver.beat("ann", 0, "orders")
    driver.beat("bob", 0, "orders")
    driver.beat("ann", 1)
    driver.beat("cid", 0, "orders")
    driver.beat("ann", 2)
    assert refusal_of(lambda: driver.beat("ann", 1)) is ErrorCode.FENCED_MEMBER_EPOCH


def test_invalid_heartbeats_are_refused() -> None:
    driver = Driver()
    assert refusal_of(lambda: driver.beat("", 0, "orders")) is ErrorCode.INVALID_REQUEST
    assert refusal_of(lambda: driver.beat("ann")) is ErrorCode.INVALID_REQUEST
    assert refusal_of(lambda: driver.beat("ann", 0, "orders", rack="")) is ErrorCode.INVALID_REQUEST
    assert refusal_of(lambda: driver.beat("ann", 0, "x" * (2 << 20))) is ErrorCode.INVALID_REQUEST
    assert refusal_of(lambda: driver.beat("ann", 1)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal_of(lambda: driver.beat("ann", -1)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_group_refuses_a_new_member_and_keeps_the_others() -> None:
    driver = Driver(GroupDefaults(group_share_max_size=2))
    driver.beat("ann", 0, "orders")
    driver.beat("bob", 0, "orders")
    assert refusal_of(lambda: driver.beat("cid", 0, "orders")) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.beat("ann", 0, "orders").epoch == 2


def test_a_restart_keeps_members_and_assignments_and_begins_their_sessions_again() -> None:
    driver = Driver()
    driver.beat("ann", 0, "orders", rack="r1")
    driver.beat("bob", 0, "orders")
    driver.beat("ann", 1)
    before = driver.machine.describe_share(GROUP)
    weight = driver.machine.weight
    driver.monotonic_ms = 1_000_000
    driver.restart()
    assert driver.machine.describe_share(GROUP) == before
    assert driver.machine.weight == weight
    assert driver.machine.next_deadline_ms() == 1_000_000 + SESSION_MS
    assert driver.beat("ann", 2) == ShareAnswer(MemberId("ann"), 2, INTERVAL_MS)


def test_the_log_may_be_compacted_to_the_last_event_of_each_key() -> None:
    driver = Driver()
    driver.beat("ann", 0, "orders")
    driver.beat("bob", 0, "orders")
    driver.beat("ann", 1)
    before = driver.machine.describe_share(GROUP)
    last: dict[object, object] = {}
    for event in driver.log:
        last[type(event), getattr(event, "member_id", None)] = event
    driver.log = [*reversed(last.values())]
    driver.restart()
    assert {each.member_id: each for each in driver.machine.describe_share(GROUP).members} == {
        each.member_id: each for each in before.members
    }


def test_the_tombstones_of_a_member_end_with_the_member_itself() -> None:
    driver = Driver()
    driver.beat("ann", 0, "orders")
    driver.beat("ann", -1)
    assert isinstance(driver.log[-1], ShareMemberForgotten)
    kinds = [type(each) for each in driver.log]
    assert kinds.index(ShareGroupStored) < kinds.index(ShareCurrentStored)


def test_kinds_of_groups_do_not_mix() -> None:
    driver = Driver()
    driver.beat("ann", 0, "orders")
    machine = driver.machine
    commit = Commit(MemberId(""), None, -1, (offset("orders", 0, 7),))
    consuming = consumer_heartbeat("ann", topics=["orders"])
    where = [TopicPartition(TopicName("orders"), 0)]
    not_found, inconsistent = ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    for call, code in (
        (lambda: machine.decide_join(GROUP, join_request(), Ticket(1), driver.now), inconsistent),
        (lambda: machine.decide_heartbeat(GROUP, MemberId("ann"), None, 1, driver.now), unknown),
        (lambda: machine.decide_leave(GROUP, (), driver.now), unknown),
        (
            lambda: machine.decide_member_heartbeat(GROUP, consuming, driver.now),
            not_found,
        ),
        (lambda: machine.decide_commit(GROUP, commit, driver.now), not_found),
        (lambda: machine.committed(GROUP, OffsetQuery(None, MemberId("ann"), 1)), not_found),
        (lambda: machine.decide_delete_offsets(GROUP, where), not_found),
        (lambda: machine.describe_classic(GROUP), not_found),
        (lambda: machine.describe_consumer(GROUP), not_found),
    ):
        assert refusal_of(call) is code
    other = GroupId("readers")
    driver.run(lambda: machine.decide_member_heartbeat(other, consumer_heartbeat("ann", topics=["orders"]), driver.now))
    assert refusal_of(lambda: driver.beat("ann", 0, "orders", group_id=other)) is not_found
    assert refusal_of(lambda: machine.describe_share(other)) is not_found
