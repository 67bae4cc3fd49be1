"""The classic protocol on the wire, in every version: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, DescribeGroups."""

from collections.abc import Iterator
from typing import Any

import pytest

from headwater.errors import ErrorCode
from headwater.protocol.messages.groups.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from headwater.protocol.messages.groups.join_group import JoinGroupResponse
from headwater.protocol.messages.groups.sync_group import SyncGroupRequest, SyncGroupResponse
from headwater.testing import Broker
from tests.support.kafka.raw_client import RawClient
from tests.support.kafka.raw_groups import (
    SETTINGS,
    Place,
    find,
    heartbeat,
    join,
    join_request,
    leave,
    only_member,
    sync,
    sync_request,
)

STATIC_JOIN_VERSIONS = range(5, 10)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(SETTINGS) as broker:
        yield broker


@pytest.fixture
def other(broker: Broker) -> Iterator[RawClient]:
    """A second connection: a waiting request blocks later requests on its own connection."""
    with RawClient(broker) as client:
        yield client


@pytest.fixture
def group(client: RawClient, name: str) -> str:
    find(client, name)
    return name


def describe(client: RawClient, *groups: str, version: int = 6) -> list[DescribedGroup]:
    request = DescribeGroupsRequest(groups=list(groups), include_authorized_operations=False)
    return client.ask(request, DescribeGroupsResponse, version).groups


def two_members(client: RawClient, other: RawClient, group: str) -> tuple[Place, Place]:
    """The leader, on connection `client`, and a follower on `other`. Both have joined and not yet synced."""
    first = only_member(client, group)
    named = other.ask(join_request(group), JoinGroupResponse, 9)
    assert named.error_code == ErrorCode.MEMBER_ID_REQUIRED
    other.send(join_request(group, Place(named.member_id)), 9)
    while heartbeat(client, group, first) != ErrorCode.REBALANCE_IN_PROGRESS:
        pass
    led = join(client, group, first)
    _, followed = other.receive(JoinGroupResponse, 9)
    assert (led.error_code, followed.error_code) == (0, 0)
    assert led.generation_id == followed.generation_id == first.generation + 1
    assert led.leader == followed.leader == led.member_id
    assert {member.member_id for member in led.members} == {led.member_id, followed.member_id}
    assert followed.members == []
    return Place(led.member_id, led.generation_id), Place(followed.member_id, followed.generation_id)


# -- JoinGroup


@pytest.mark.parametrize("version", range(10))
def test_the_first_member_leads_its_group(client: RawClient, group: str, version: int) -> None:
    request = join_request(group, protocols={"range": b"mine", "sticky": b"other"})
    joined = client.ask(request, JoinGroupResponse, version)
    if version >= 4:
        assert (joined.error_code, joined.generation_id) == (ErrorCode.MEMBER_ID_REQUIRED, -1)
        again = join_request(group, Place(joined.member_id), protocols={"range": b"mine", "sticky": b"other"})
        joined = client.ask(again, JoinGroupResponse, version)

    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
    assert joined.protocol_type == ("consumer" if version >= 7 else None)
    assert joined.leader == joined.member_id
    assert joined.member_id.startswith("raw-"), "the id begins with the client's"
    assert [(each.member_id, each.group_instance_id, each.metadata) for each in joined.members] == [
        (joined.member_id, None, b"mine")
    ]
    assert not joined.skip_assignment


@pytest.mark.parametrize("version", range(10))
def test_a_refused_join_has_no_generation_and_no_protocol(client: RawClient, group: str, version: int) -> None:
    told = client.ask(join_request(group, Place("somebody")), JoinGroupResponse, version)

    assert (told.error_code, told.generation_id, told.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, -1, "somebody")
    assert told.protocol_name == (None if version >= 7 else "")
    assert told.members == []


@pytest.mark.parametrize("version", STATIC_JOIN_VERSIONS)
def test_a_static_member_joins_without_id_and_rejoins_without_a_rebalance(
    client: RawClient, group: str, version: int
) -> None:
    first = client.ask(join_request(group, Place(instance_id="a")), JoinGroupResponse, version)
    assert (first.error_code, first.generation_id) == (0, 1)
    assert [each.group_instance_id for each in first.members] == ["a"]
    place = Place(first.member_id, 1, "a")
    assert sync(client, group, place, {place.member_id: b"everything"}).error_code == 0

    second = client.ask(join_request(group, Place(instance_id="a")), JoinGroupResponse, version)

    assert (second.error_code, second.generation_id) == (0, 1), "no rebalance"
    assert second.member_id != first.member_id
    if version >= 9:
        assert (second.leader, second.skip_assignment) == (second.member_id, True)
    else:
        assert second.leader == first.member_id, "it shall not assign anew"
    assert sync(client, group, Place(second.member_id, 1, "a")).assignment == b"everything"
    assert heartbeat(client, group, place) == ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"session_timeout_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 2**31 - 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocols": {}}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": {"unheard of": b""}}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_a_join_that_does_not_fit_the_group_is_refused(
    client: RawClient, group: str, options: dict[str, Any], code: ErrorCode
) -> None:
    only_member(client, group)
    assert join(client, group, **options).error_code == code


def test_an_empty_group_name_is_refused(client: RawClient, group: str) -> None:
    invalid = ErrorCode.INVALID_GROUP_ID
    assert join(client, "").error_code == invalid
    assert sync(client, "", Place("m", 1)).error_code == invalid
    assert heartbeat(client, "", Place("m", 1)) == invalid
    assert leave(client, "", Place("m", 1)).error_code == invalid


def test_a_join_beyond_group_max_size_is_refused() -> None:
    with Broker({**SETTINGS, "group.max.size": "1"}) as broker, RawClient(broker) as client:
        only_member(client, "group")
        assert join(client, "group").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_join_beyond_the_limit_of_groups_is_refused() -> None:
    with Broker({**SETTINGS, "headwater.groups.max": "1"}) as broker, RawClient(broker) as client:
        only_member(client, "group")
        assert join(client, "another").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_join_before_any_coordinator_lookup_is_refused() -> None:
    with Broker(SETTINGS) as broker, RawClient(broker) as client:
        assert join(client, "group").error_code == ErrorCode.NOT_COORDINATOR
        assert only_member(client, "group").generation == 1


# -- SyncGroup


@pytest.mark.parametrize("version", range(6))
def test_each_member_gets_the_assignment_that_the_leader_sent(
    client: RawClient, other: RawClient, group: str, version: int
) -> None:
    leader, follower = two_members(client, other, group)
    waiting = other.send(sync_request(group, follower), version)

    own = sync(client, group, leader, {leader.member_id: b"ours", follower.member_id: b"theirs"}, version)
    answered, theirs = other.receive(SyncGroupResponse, version)

    assert answered == waiting
    assert (own.error_code, own.assignment) == (0, b"ours")
    assert (theirs.error_code, theirs.assignment) == (0, b"theirs")
    named = ("consumer", "range") if version >= 5 else (None, None)
    assert (own.protocol_type, own.protocol_name) == named
    assert sync(other, group, follower, version=version).assignment == b"theirs", "a repeated sync gets the same answer"


@pytest.mark.parametrize("version", range(6))
def test_a_sync_with_a_wrong_generation_or_member_is_refused(client: RawClient, group: str, version: int) -> None:
    place = only_member(client, group)
    codes = [
        sync(client, group, wrong, version=version).error_code
        for wrong in (place._replace(generation=7), place._replace(member_id="somebody"))
    ]
    assert codes == [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID]
    assert sync(client, "no-such-group", place, version=version).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(("protocol_type", "protocol"), [("connect", "range"), ("consumer", "sticky")])
def test_a_sync_in_another_protocol_is_refused(
    client: RawClient, group: str, protocol_type: str, protocol: str
) -> None:
    place = only_member(client, group)
    request = SyncGroupRequest(
        group_id=group,
        generation_id=place.generation,
        member_id=place.member_id,
        group_instance_id=None,
        protocol_type=protocol_type,
        protocol_name=protocol,
        assignments=[],
    )
    told = client.ask(request, SyncGroupResponse, 5)
    assert (told.error_code, told.assignment) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, b"")


def test_a_waiting_sync_is_told_to_rejoin_when_the_leader_leaves(
    client: RawClient, other: RawClient, group: str
) -> None:
    leader, follower = two_members(client, other, group)
    other.send(sync_request(group, follower), 5)
    assert heartbeat(client, group, leader) == 0

    leave(client, group, leader)

    assert other.receive(SyncGroupResponse, 5)[1].error_code == ErrorCode.REBALANCE_IN_PROGRESS


# -- Heartbeat


@pytest.mark.parametrize("version", range(5))
def test_a_heartbeat_is_refused_for_all_but_members_of_the_generation(
    client: RawClient, group: str, version: int
) -> None:
    place = only_member(client, group, "instance" if version >= 3 else None)

    def code(**changes: Any) -> int:
        return heartbeat(client, group, place._replace(**changes), version)

    assert code() == 0
    assert code(generation=place.generation + 1) == ErrorCode.ILLEGAL_GENERATION
    assert code(generation=place.generation - 1) == ErrorCode.ILLEGAL_GENERATION
    stranger = ErrorCode.FENCED_INSTANCE_ID if version >= 3 else ErrorCode.UNKNOWN_MEMBER_ID
    assert code(member_id="somebody") == stranger
    assert code(member_id="somebody", instance_id=None) == ErrorCode.UNKNOWN_MEMBER_ID
    assert heartbeat(client, "no-such-group", place, version) == ErrorCode.UNKNOWN_MEMBER_ID


# -- LeaveGroup


@pytest.mark.parametrize("version", range(3))
def test_one_member_leaves(client: RawClient, group: str, version: int) -> None:
    place = only_member(client, group)

    assert leave(client, group, Place("somebody"), version=version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert leave(client, group, place, version=version).error_code == 0
    assert leave(client, group, place, version=version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert describe(client, group)[0].group_state == "Empty"


@pytest.mark.parametrize("version", range(3, 6))
def test_many_members_leave_at_once_and_each_has_its_result(client: RawClient, group: str, version: int) -> None:
    place = only_member(client, group, "instance")
    leaving = [Place("somebody"), Place(instance_id="nowhere"), place._replace(member_id="old"), place]

    told = leave(client, group, *leaving, version=version)

    assert told.error_code == 0
    assert [(each.member_id, each.group_instance_id, each.error_code) for each in told.members] == [
        ("somebody", None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", "nowhere", ErrorCode.UNKNOWN_MEMBER_ID),
        ("old", "instance", ErrorCode.FENCED_INSTANCE_ID),
        (place.member_id, "instance", 0),
    ]
    assert describe(client, group)[0].members == []


@pytest.mark.parametrize("version", range(3, 6))
def test_an_administrator_removes_a_static_member_by_its_instance(client: RawClient, group: str, version: int) -> None:
    only_member(client, group, "instance")
    (told,) = leave(client, group, Place(instance_id="instance"), version=version).members
    assert told.error_code == 0
    assert describe(client, group)[0].group_state == "Empty"


# -- DescribeGroups


@pytest.mark.parametrize("version", range(7))
def test_a_group_is_described_with_its_members(client: RawClient, group: str, version: int) -> None:
    place = only_member(client, group, "instance", topics=["some-topic"])

    (told,) = describe(client, group, version=version)

    assert (told.error_code, told.group_id, told.group_state) == (0, group, "Stable")
    assert (told.protocol_type, told.protocol_data) == ("consumer", "range")
    (member,) = told.members
    assert (member.member_id, member.client_id, member.client_host) == (place.member_id, "raw", "/127.0.0.1")
    assert member.group_instance_id == ("instance" if version >= 4 else None)
    assert b"some-topic" in member.member_metadata
    assert member.member_assignment == b"all"


@pytest.mark.parametrize("version", range(7))
def test_an_unknown_group_is_described_as_dead(client: RawClient, group: str, version: int) -> None:
    (told,) = describe(client, group, version=version)

    assert (told.group_id, told.group_state, told.members) == (group, "Dead", [])
    assert told.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)
    assert bool(told.error_message) == (version >= 6)


def test_states_are_described_by_kafkas_names(client: RawClient, other: RawClient, group: str) -> None:
    leader, follower = two_members(client, other, group)
    (told,) = describe(client, group)
    assert told.group_state == "CompletingRebalance"
    assert {member.member_assignment for member in told.members} == {b""}

    sync(client, group, leader)
    assert describe(client, group)[0].group_state == "Stable"
    leave(client, group, leader)
    assert describe(client, group)[0].group_state == "PreparingRebalance"
    leave(client, group, follower)
    assert describe(client, group)[0].group_state == "Empty"
