"""Routing of commands to groups of both protocols, and the deadlines of all groups."""

from collections.abc import Callable

import pytest

from headwater.config.group_defaults import GroupDefaults
from headwater.coordination.groups.classic.commands import JoinResult, SyncResult
from headwater.coordination.groups.classic.events import ClassicGroupForgotten
from headwater.coordination.groups.classic.group import ClassicGroup
from headwater.coordination.groups.consumer.commands import LEAVE_EPOCH, LEAVE_STATIC_EPOCH
from headwater.coordination.groups.consumer.events import ConsumerGroupForgotten, ConsumerGroupStored, MemberStored
from headwater.coordination.groups.offsets.events import OffsetForgotten
from headwater.coordination.groups.terms import GroupListing, GroupState, GroupType
from headwater.errors import ErrorCode, Refusal
from headwater.ids import GroupId, MemberId, TopicName
from headwater.protocol.consumer_protocol import write_assignment
from tests.coordination.groups.machine_driver import MachineDriver
from tests.coordination.groups.one_group import OneGroup, offset
from tests.support.coordination.consumer_driver import SESSION_TIMEOUT_MS, Topics, heartbeat
from tests.support.coordination.migration_driver import CLASSIC_SESSION_TIMEOUT_MS, join_request

NAME = "payments"
PAYMENTS = GroupId(NAME)

Request = Callable[[OneGroup], object]


@pytest.fixture
def driver() -> MachineDriver:
    return MachineDriver(Topics({"a": 2, "b": 1}))


@pytest.fixture
def group(driver: MachineDriver) -> OneGroup:
    return driver.group(NAME)


def refusal(request: Callable[[], object]) -> ErrorCode:
    with pytest.raises(Refusal) as refused:
        request()
    return refused.value.code


# -- unknown groups

MEMBERS_REQUESTS: dict[str, Request] = {
    "sync": lambda group: group.sync("bob", 1),
    "heartbeat": lambda group: group.beat("bob", 1),
    "heartbeat of the next generation": lambda group: group.heartbeat(heartbeat("bob", 1)),
    "leave of the next generation": lambda group: group.heartbeat(heartbeat("bob", LEAVE_EPOCH)),
    "leave for a while": lambda group: group.heartbeat(heartbeat("bob", LEAVE_STATIC_EPOCH, instance="i")),
    "join under an id": lambda group: group.join(join_request("bob")),
}


@pytest.mark.parametrize("request_", MEMBERS_REQUESTS.values(), ids=MEMBERS_REQUESTS.keys())
def test_a_member_of_an_unknown_group_is_refused_and_no_group_begins(
    driver: MachineDriver, group: OneGroup, request_: Request
) -> None:
    assert refusal(lambda: request_(group)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.machine.groups == {}


def test_leaving_an_unknown_group_is_refused_for_every_member(driver: MachineDriver, group: OneGroup) -> None:
    assert group.leave(("bob", None), ("", "instance")) == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    assert driver.machine.groups == {}


@pytest.mark.parametrize(
    "ask",
    [
        lambda group: group.machine.describe_classic(PAYMENTS),
        lambda group: group.machine.describe_consumer(PAYMENTS),
        lambda group: group.driver.delete(NAME),
        lambda group: group.delete_offsets(("a", 0)),
    ],
    ids=["describe classic", "describe consumer", "delete", "delete offsets"],
)
def test_an_unknown_group_is_not_found(group: OneGroup, ask: Request) -> None:
    assert refusal(lambda: ask(group)) is ErrorCode.GROUP_ID_NOT_FOUND


# -- the group decides which protocol is spoken


def test_requests_of_classic_members_reach_the_classic_group(driver: MachineDriver, group: OneGroup) -> None:
    group.stable_classic(assigned=b"all of it")

    assert group.beat("bob", 1) is ErrorCode.NONE
    assert group.sync("bob", 1) == SyncResult(ErrorCode.NONE, "consumer", "range", b"all of it")
    assert refusal(lambda: group.beat("bob", 0)) is ErrorCode.ILLEGAL_GENERATION
    assert refusal(lambda: group.heartbeat(heartbeat("bob", 1))) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.leave(("bob", None)) == [ErrorCode.NONE]
    assert group.state is GroupState.EMPTY
    assert not driver.deadlines


def test_requests_of_classic_members_reach_the_consumer_group(driver: MachineDriver, group: OneGroup) -> None:
    group.stable_consumer()

    joined = group.join(join_request(new_member_id="bob"))
    assert isinstance(joined, JoinResult)
    assert (joined.member_id, joined.generation) == (MemberId("bob"), 2)
    assert group.sync("bob", 2) == SyncResult(ErrorCode.NONE, assignment=write_assignment({}, 3))
    assert group.beat("bob", 2) is ErrorCode.NONE
    assert group.leave(("bob", None), ("ann", None)) == [ErrorCode.NONE, ErrorCode.NONE]
    assert group.consumer.state is GroupState.EMPTY
    assert not driver.deadlines


def test_a_consumer_heartbeat_upgrades_a_classic_group_with_members(group: OneGroup) -> None:
    group.stable_classic(assigned=write_assignment({TopicName("a"): [0, 1]}))

    assert group.heartbeat(heartbeat("ann", topics=["a"])).epoch == 2
    assert set(group.consumer.roster.members) == {"bob", "ann"}


def test_a_consumer_group_with_only_classic_members_left_is_downgraded(driver: MachineDriver, group: OneGroup) -> None:
    group.stable_consumer()
    group.join(join_request(new_member_id="bob"))
    group.heartbeat(heartbeat("ann", LEAVE_EPOCH))

    assert list(group.classic.roster.members) == ["bob"]
    assert {kind for _, kind, _ in driver.deadlines} == {"classic-session", "classic-join"}


def test_an_empty_consumer_group_becomes_classic_for_a_classic_client(driver: MachineDriver, group: OneGroup) -> None:
    group.empty_consumer()
    start = len(driver.log)

    group.join(join_request(new_member_id="bob"))

    assert list(group.classic.roster.members) == ["bob"]
    assert isinstance(driver.log[-1], ConsumerGroupForgotten)
    assert driver.restarted().machine.groups == {}, "so far nobody has been told of the classic group"
    assert len(driver.log) > start


def test_an_empty_consumer_group_stays_one_when_the_classic_join_is_refused(
    driver: MachineDriver, group: OneGroup
) -> None:
    group.empty_consumer()
    events = len(driver.log)
    assert refusal(lambda: group.join(join_request("bob"))) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.consumer.roster.epoch == 2
    assert len(driver.log) == events


def test_an_empty_classic_group_becomes_a_consumer_group_for_a_consumer_client(
    driver: MachineDriver, group: OneGroup
) -> None:
    group.empty_classic()
    start = len(driver.log)

    assert group.heartbeat(heartbeat("ann", topics=["a"])).epoch == 1

    assert isinstance(driver.log[start], ClassicGroupForgotten)
    assert isinstance(driver.log[start + 1], ConsumerGroupStored)
    assert driver.restarted().group(NAME).consumer.describe() == group.consumer.describe()


@pytest.mark.parametrize("begin", [OneGroup.empty_classic, OneGroup.empty_consumer])
def test_a_group_that_changes_its_protocol_keeps_its_offsets_and_so_does_its_log(
    driver: MachineDriver, group: OneGroup, begin: Callable[[OneGroup], None]
) -> None:
    begin(group)
    group.commit(offset("a", 0, 7))
    if isinstance(group.group, ClassicGroup):
        group.heartbeat(heartbeat("ann", topics=["a"]))
    else:
        group.join(join_request(new_member_id="bob"))

    restarted = driver.restarted()
    for known in (driver, restarted):
        assert known.group(NAME).committed() == {("a", 0): 7}
        assert [listing.group_id for listing in known.machine.listings()] == [NAME]


def test_offsets_whose_group_was_lost_between_two_protocols_can_be_deleted_and_expire(
    driver: MachineDriver, group: OneGroup
) -> None:
    group.empty_consumer()
    group.commit(offset("a", 0, 7))
    # A client that never comes back: the log knows the end of the one group, and nothing of the other.
    group.join(join_request(new_member_id="bob", is_member_id_required=True))

    restarted = driver.restarted()
    restarted.pass_time(driver.config.offsets_retention_ms)
    assert [type(event) for event in restarted.expire()] == [OffsetForgotten, ClassicGroupForgotten]
    driver.restarted().delete(NAME)


# -- questions


def test_a_group_is_described_under_its_own_protocol_only(driver: MachineDriver) -> None:
    driver.group("classic").stable_classic()
    driver.group("consumer").stable_consumer()
    machine = driver.machine

    assert machine.describe_classic(GroupId("classic")).members[0].member_id == "bob"
    assert machine.describe_consumer(GroupId("consumer")).members[0].member_id == "ann"
    with pytest.raises(Refusal, match="is not a consumer group") as refused:
        machine.describe_consumer(GroupId("classic"))
    assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    with pytest.raises(Refusal, match="is not a classic group") as refused:
        machine.describe_classic(GroupId("consumer"))
    assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_all_groups_are_listed_with_their_types_and_states(driver: MachineDriver) -> None:
    driver.group("stable").stable_classic()
    driver.group("empty").empty_classic()
    driver.group("new").stable_consumer()
    driver.group("no members").commit(offset("a", 0, 1))
    driver.group("other").join(join_request(new_member_id="connect", protocol_type="connect"))

    assert driver.machine.listings() == [
        GroupListing(GroupId("stable"), "consumer", GroupState.STABLE, GroupType.CLASSIC),
        GroupListing(GroupId("empty"), "consumer", GroupState.EMPTY, GroupType.CLASSIC),
        GroupListing(GroupId("new"), "consumer", GroupState.STABLE, GroupType.CONSUMER),
        GroupListing(GroupId("no members"), "", GroupState.EMPTY, GroupType.CLASSIC),
        GroupListing(GroupId("other"), "connect", GroupState.PREPARING_REBALANCE, GroupType.CLASSIC),
    ]


# -- time


def test_deadlines_of_all_groups_come_in_their_order(driver: MachineDriver) -> None:
    driver.group("classic").stable_classic()
    driver.pass_time(1000)
    driver.group("consumer").stable_consumer()
    driver.group("waiting").join(join_request(is_member_id_required=True))
    machine = driver.machine
    assert machine.next_deadline_ms() == CLASSIC_SESSION_TIMEOUT_MS

    driver.pass_time(CLASSIC_SESSION_TIMEOUT_MS - 1000)
    assert driver.group("classic").state is GroupState.EMPTY
    assert len(driver.group("consumer").consumer.roster.members) == 1
    assert machine.next_deadline_ms() == 1000 + CLASSIC_SESSION_TIMEOUT_MS

    driver.pass_time(SESSION_TIMEOUT_MS)
    assert {listing.state for listing in machine.listings()} == {GroupState.EMPTY}
    assert machine.next_deadline_ms() is None
    with pytest.raises(AssertionError):
        machine.decide_due(driver.now)


def test_two_deadlines_of_the_same_instant_are_decided_in_turn(driver: MachineDriver) -> None:
    for name in ("one", "two"):
        driver.group(name).stable_consumer()
    machine = driver.machine
    driver._move_to(SESSION_TIMEOUT_MS)

    first = driver.take(lambda: machine.decide_due(driver.now))
    assert {event.group_id for event in first.events if isinstance(event, ConsumerGroupStored)} == {GroupId("one")}
    assert machine.next_deadline_ms() == SESSION_TIMEOUT_MS
    second = driver.take(lambda: machine.decide_due(driver.now))
    assert {event.group_id for event in second.events if isinstance(event, ConsumerGroupStored)} == {GroupId("two")}
    assert machine.next_deadline_ms() is None


def test_a_group_has_the_settings_of_its_broker() -> None:
    driver = MachineDriver(Topics({"a": 1}), GroupDefaults(group_max_size=1, group_initial_rebalance_delay_ms=0))
    group = driver.group(NAME)
    group.stable_classic()
    full = group.join(join_request(new_member_id="cid"))
    assert isinstance(full, JoinResult)
    assert full.error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_member_is_stored_before_it_is_answered(driver: MachineDriver, group: OneGroup) -> None:
    group.stable_consumer()
    assert [event.member_id for event in driver.log if isinstance(event, MemberStored)] == ["ann"]
