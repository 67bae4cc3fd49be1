"""The next-generation protocol on the wire: ConsumerGroupHeartbeat and ConsumerGroupDescribe, in both versions."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest

from headwater.errors import ErrorCode
from headwater.protocol.messages.groups.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from headwater.protocol.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from headwater.testing import Broker
from tests.support.kafka.raw_client import RawClient
from tests.support.kafka.raw_groups import SETTINGS, Place, consumer_member, find, member_heartbeat, only_member

LEAVE, LEAVE_FOR_A_WHILE = -1, -2


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({**SETTINGS, "group.consumer.heartbeat.interval.ms": "700"}) as broker:
        yield broker


@pytest.fixture
def group(client: RawClient) -> str:
    group = f"group-{uuid4().hex}"
    find(client, group)
    return group


def newcomer(instance_id: str | None = None) -> Place:
    return Place(str(uuid4()), 0, instance_id)


def assigned(told: ConsumerGroupHeartbeatResponse) -> dict[UUID, list[int]] | None:
    if told.assignment is None:
        return None
    return {topic.topic_id: topic.partitions for topic in told.assignment.topic_partitions}


def describe(client: RawClient, *groups: str, version: int = 1) -> list[DescribedGroup]:
    request = ConsumerGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=False)
    return client.ask(request, ConsumerGroupDescribeResponse, version).groups


# -- ConsumerGroupHeartbeat


@pytest.mark.parametrize("version", range(2))
def test_a_member_joins_and_gets_its_partitions(client: RawClient, name: str, group: str, version: int) -> None:
    topic_id = client.create(name, partitions=3)
    # In version 0 the coordinator chooses the member id.
    place = newcomer() if version else Place("", 0)

    told = member_heartbeat(client, group, place, topics=[name], owned={}, version=version)

    assert (told.error_code, told.member_epoch, told.heartbeat_interval_ms) == (0, 1, 700)
    assert assigned(told) == {topic_id: [0, 1, 2]}
    assert told.member_id
    if version:
        assert told.member_id == place.member_id
    again = Place(told.member_id, told.member_epoch)
    quiet = member_heartbeat(client, group, again, version=version)
    assert (quiet.error_code, quiet.member_epoch, assigned(quiet)) == (0, 1, None), "nothing has changed"


@pytest.mark.parametrize("version", range(2))
def test_partitions_move_once_their_owner_revoked_them(client: RawClient, name: str, group: str, version: int) -> None:
    topic_id = client.create(name, partitions=2)
    first = consumer_member(client, group, name)
    joined = member_heartbeat(client, group, newcomer(), topics=[name], owned={}, version=version)
    second = Place(joined.member_id or "", joined.member_epoch)
    assert assigned(joined) == {}, "the other still has everything"

    told = member_heartbeat(client, group, first, owned={topic_id: [0, 1]}, version=version)
    (kept,) = (assigned(told) or {})[topic_id]
    assert told.member_epoch == first.generation, "not before it gave up the rest"
    assert assigned(member_heartbeat(client, group, second, owned={}, version=version)) in (None, {})
    told = member_heartbeat(client, group, first, owned={topic_id: [kept]}, version=version)
    assert told.member_epoch == second.generation
    gained = member_heartbeat(client, group, second, owned={}, version=version)

    assert assigned(gained) == {topic_id: [1 - kept]}


@pytest.mark.parametrize("version", range(2))
def test_a_member_leaves(client: RawClient, topic: str, group: str, version: int) -> None:
    place = consumer_member(client, group, topic)

    told = member_heartbeat(client, group, place._replace(generation=LEAVE), version=version)

    assert (told.error_code, told.member_id, told.member_epoch) == (0, place.member_id, LEAVE)
    assert member_heartbeat(client, group, place).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert describe(client, group)[0].group_state == "Empty"


@pytest.mark.parametrize("version", range(2))
def test_a_static_member_comes_back_to_what_it_had(client: RawClient, name: str, group: str, version: int) -> None:
    topic_id = client.create(name, partitions=4)
    place = consumer_member(client, group, name, "instance")
    assert (
        member_heartbeat(client, group, newcomer("instance"), topics=[name], owned={}).error_code
        == ErrorCode.UNRELEASED_INSTANCE_ID
    )

    away = member_heartbeat(client, group, place._replace(generation=LEAVE_FOR_A_WHILE), version=version)
    assert (away.error_code, away.member_epoch) == (0, LEAVE_FOR_A_WHILE)
    back = newcomer("instance")
    told = member_heartbeat(client, group, back, topics=[name], owned={}, version=version)

    assert (told.error_code, assigned(told)) == (0, {topic_id: [0, 1, 2, 3]})
    assert member_heartbeat(client, group, place).error_code == ErrorCode.FENCED_INSTANCE_ID


def test_a_new_regular_expression_is_assigned_together_with_the_named_topics(
    client: RawClient, name: str, group: str
) -> None:
    """In one epoch; Kafka assigns the named topics first, and the others with a later heartbeat."""
    ids = {client.create(f"{name}-{ending}") for ending in ("named", "matched")}

    told = member_heartbeat(
        client, group, newcomer(), owned={}, topics=[f"{name}-named"], subscribed_topic_regex=f"{name}-m.*"
    )

    assert (told.error_code, told.member_epoch) == (0, 1)
    assert (assigned(told) or {}).keys() == ids


def test_a_regular_expression_matches_present_and_later_topics(client: RawClient, name: str, group: str) -> None:
    ids = {client.create(f"{name}-{number}") for number in range(2)}
    told = member_heartbeat(
        client,
        group,
        newcomer(),
        owned={},
        topics=[],
        subscribed_topic_regex=f"{name}-[0-9]",
    )
    assert told.error_code == 0
    assert (assigned(told) or {}).keys() == ids

    ids.add(client.create(f"{name}-9"))
    client.create(f"{name}-x")
    place = Place(told.member_id or "", told.member_epoch)
    owned = assigned(told)
    later = member_heartbeat(client, group, place, owned=owned)
    assert (assigned(later) or {}).keys() == ids


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"subscribed_topic_regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"server_assignor": "mine"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"topics": None}, ErrorCode.INVALID_REQUEST),
        ({"owned": None}, ErrorCode.INVALID_REQUEST),
        ({"owned": {uuid4(): [0]}}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_invalid_join_is_refused(
    client: RawClient, topic: str, group: str, options: dict[str, Any], code: ErrorCode
) -> None:
    sound: dict[str, Any] = {"topics": [topic], "owned": {}}
    told = member_heartbeat(client, group, newcomer(), **{**sound, **options})

    assert told.error_code == code
    assert told.error_message
    assert describe(client, group)[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND, "and leaves no group behind"


@pytest.mark.parametrize(
    ("place", "code"),
    [
        (Place("", 0), ErrorCode.INVALID_REQUEST),
        (Place("", 1), ErrorCode.INVALID_REQUEST),
        (Place("somebody", -3), ErrorCode.INVALID_REQUEST),
        (Place("somebody", -2), ErrorCode.INVALID_REQUEST),
        (Place("somebody", 0, ""), ErrorCode.INVALID_REQUEST),
        (Place("somebody", 1), ErrorCode.UNKNOWN_MEMBER_ID),
        (Place("somebody", -1), ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_heartbeat_of_an_unknown_member_is_refused(
    client: RawClient, topic: str, group: str, place: Place, code: ErrorCode
) -> None:
    consumer_member(client, group, topic)
    assert member_heartbeat(client, group, place, topics=[topic], owned={}).error_code == code


def test_a_heartbeat_that_is_invalid_in_every_group_says_so_without_one(client: RawClient, group: str) -> None:
    """Only a static member leaves for a while, which is what epoch -2 means."""
    assert member_heartbeat(client, group, Place("somebody", -2)).error_code == ErrorCode.INVALID_REQUEST
    assert member_heartbeat(client, group, Place("somebody", -3)).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", range(2))
def test_a_member_with_a_wrong_epoch_is_fenced(client: RawClient, topic: str, group: str, version: int) -> None:
    place = consumer_member(client, group, topic)
    wrong = place._replace(generation=place.generation + 1)
    told = member_heartbeat(client, group, wrong, version=version)
    assert (told.error_code, assigned(told)) == (ErrorCode.FENCED_MEMBER_EPOCH, None)


def test_an_empty_group_name_is_refused(client: RawClient, group: str) -> None:
    told = member_heartbeat(client, "", newcomer(), topics=["topic"], owned={})
    assert told.error_code == ErrorCode.INVALID_REQUEST
    assert describe(client, "")[0].error_code == ErrorCode.INVALID_GROUP_ID


def test_a_join_beyond_the_limit_of_members_is_refused() -> None:
    with Broker({**SETTINGS, "group.consumer.max.size": "1"}) as broker, RawClient(broker) as client:
        client.create("topic")
        consumer_member(client, "group", "topic")
        told = member_heartbeat(client, "group", newcomer(), topics=["topic"], owned={})
        assert told.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


# -- ConsumerGroupDescribe


@pytest.mark.parametrize("version", range(2))
def test_a_group_is_described_with_its_members(client: RawClient, name: str, group: str, version: int) -> None:
    topic_id = client.create(name, partitions=2)
    told = member_heartbeat(
        client, group, newcomer("instance"), topics=[name], owned={}, rack_id="rack", server_assignor="range"
    )
    place = Place(told.member_id or "", told.member_epoch)
    assert member_heartbeat(client, group, place, owned={topic_id: [0, 1]}).error_code == 0

    (described,) = describe(client, group, version=version)

    assert (described.error_code, described.group_id, described.group_state) == (0, group, "Stable")
    assert (described.group_epoch, described.assignment_epoch, described.assignor_name) == (1, 1, "range")
    (member,) = described.members
    assert (member.member_id, member.member_epoch) == place[:2]
    assert (member.instance_id, member.rack_id) == ("instance", "rack")
    assert (member.client_id, member.client_host) == ("raw", "/127.0.0.1")
    assert (member.subscribed_topic_names, member.subscribed_topic_regex or "") == ([name], "")
    for partitions in (member.assignment, member.target_assignment):
        assert [(each.topic_id, each.topic_name, each.partitions) for each in partitions.topic_partitions] == [
            (topic_id, name, [0, 1])
        ]
    assert member.member_type == (1 if version else -1)


@pytest.mark.parametrize("version", range(2))
def test_only_groups_of_this_protocol_are_described(client: RawClient, topic: str, group: str, version: int) -> None:
    classic = f"{group}-classic"
    only_member(client, classic)
    consumer_member(client, group, topic)

    found = describe(client, group, classic, "nobody", version=version)

    missing = ErrorCode.GROUP_ID_NOT_FOUND
    assert [(each.group_id, each.error_code) for each in found] == [(group, 0), (classic, missing), ("nobody", missing)]
    assert all(each.error_message for each in found[1:])
