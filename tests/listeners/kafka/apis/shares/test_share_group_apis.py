"""The membership and the administration of share groups on the wire."""

from uuid import UUID, uuid4

import pytest

from headwater.errors import ErrorCode
from headwater.protocol.messages.cluster.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from headwater.protocol.messages.groups.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from headwater.protocol.messages.groups.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from headwater.protocol.messages.groups.list_groups import ListGroupsRequest, ListGroupsResponse
from headwater.protocol.messages.topics.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from headwater.testing import Broker
from tests.support.broker.on_loop import on_loop
from tests.support.kafka.raw_client import RawClient, batch_of
from tests.support.kafka.raw_groups import Place, member_heartbeat
from tests.support.kafka.raw_shares import (
    ACCEPT,
    LONG_MS,
    Member,
    alter_offset,
    configure,
    delete_offsets,
    describe,
    describe_offsets,
    error_of,
    new_group,
    offsets_of,
)


@pytest.fixture
def group(client: RawClient) -> str:
    return new_group(client)


@pytest.fixture
def member(client: RawClient, group: str, name: str, topic_id: UUID) -> Member:
    return Member(client, group).join(name, topic_id)


def done_with(client: RawClient, member: Member, name: str, count: int = 10) -> None:
    """The member accepts that many records."""
    assert client.produce(name, batch_of(*(b"%d" % each for each in range(count)))).error_code == 0
    assert member.fetch(wait_ms=LONG_MS) == [(0, count - 1, 1)]
    assert member.settle((0, count - 1, ACCEPT)) == ErrorCode.NONE


def delete_group(client: RawClient, group: str) -> int:
    return client.ask(DeleteGroupsRequest(groups_names=[group]), DeleteGroupsResponse, 2).results[0].error_code


# -- membership


def test_a_member_joins_stays_and_leaves(client: RawClient, group: str, name: str, topic_id: UUID) -> None:
    member = Member(client, group)
    told = member.beat(name)
    assert (told.error_code, told.member_id, told.member_epoch, told.heartbeat_interval_ms) == (0, member.id, 1, 5000)
    assert told.assignment is not None
    assert [(each.topic_id, each.partitions) for each in told.assignment.topic_partitions] == [(topic_id, [0])]
    assert member.beat().assignment is None
    assert member.beat(epoch=-1).member_epoch == -1
    assert member.beat(epoch=1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_refused_heartbeats_say_why(client: RawClient, group: str, name: str) -> None:
    assert Member(client, group).beat().error_code == ErrorCode.INVALID_REQUEST
    assert Member(client, group).beat(name, epoch=-2).error_code == ErrorCode.INVALID_REQUEST
    assert Member(client, "").beat(name).error_code == ErrorCode.INVALID_REQUEST
    refused = Member(client, group).beat(name, epoch=3)
    assert refused.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert refused.error_message


def test_a_group_is_described(client: RawClient, group: str, member: Member, name: str, topic_id: UUID) -> None:
    second = Member(client, group)
    assert second.beat(name, rack="r1").error_code == ErrorCode.NONE
    member.beat()
    described = describe(client, group)
    assert (described.group_state, described.assignor_name) == ("Stable", "simple")
    assert described.group_epoch == described.assignment_epoch == 2
    members = {each.member_id: each for each in described.members}
    assert {each.rack_id for each in members.values()} == {None, "r1"}
    for each in members.values():
        assert (each.client_id, each.client_host, each.member_epoch) == ("raw", "/127.0.0.1", 2)
        assert each.subscribed_topic_names == [name]
        ((topic),) = each.assignment.topic_partitions
        assert (topic.topic_id, topic.topic_name, topic.partitions) == (topic_id, name, [0])
    assert describe(client, f"none-{uuid4().hex}").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_groups_are_listed_by_their_type(client: RawClient, group: str, member: Member) -> None:
    def listed(types: list[str]) -> list[tuple[str, str, str, str]]:
        request = ListGroupsRequest(states_filter=[], types_filter=types)
        return [
            (each.group_id, each.group_state, each.group_type, each.protocol_type)
            for each in client.ask(request, ListGroupsResponse, 5).groups
        ]

    assert (group, "Stable", "share", "share") in listed(["Share"])
    assert group not in {each[0] for each in listed(["consumer", "classic"])}
    (classic,) = client.ask(
        DescribeGroupsRequest(groups=[group], include_authorized_operations=False), DescribeGroupsResponse, 6
    ).groups
    assert classic.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    member.leave()
    assert (group, "Empty", "share", "share") in listed([])


def test_a_consumer_cannot_join_a_share_group_nor_the_other_way_round(
    client: RawClient, group: str, member: Member, name: str
) -> None:
    refused = member_heartbeat(client, group, Place(str(uuid4()), 0), topics=[name], owned={})
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    readers = f"readers-{uuid4().hex}"
    assert member_heartbeat(client, readers, Place(str(uuid4()), 0), topics=[name], owned={}).error_code == 0
    assert Member(client, readers).beat(name).error_code == ErrorCode.GROUP_ID_NOT_FOUND


# -- offsets and deletion


def test_what_share_groups_do_is_measured(
    broker: Broker, client: RawClient, group: str, member: Member, name: str
) -> None:
    def value(family: str, **labels: str) -> float:
        (found,) = on_loop(broker, lambda: broker.node.broker.measurements.metrics.collect(family))
        return sum(each.value for each in found.samples if labels.items() <= dict(each.labels).items())

    # There are no such metrics before the first share group of a broker.
    on_loop(broker, lambda: broker.node.broker.shares)
    accepted = value("headwater_share_acknowledgements_total", type="accepted")
    delivered = value("headwater_share_deliveries_total")
    client.produce(name, batch_of(b"a", b"b", b"c"))
    assert member.fetch() == [(0, 2, 1)]
    where = {"group": group, "topic": name, "partition": "0"}
    assert (value("headwater_share_held", **where), value("headwater_share_backlog", **where)) == (3, 3)
    assert member.settle((1, 2, ACCEPT)) == ErrorCode.NONE
    assert (value("headwater_share_held", **where), value("headwater_share_backlog", **where)) == (1, 1)
    assert value("headwater_share_deliveries_total") - delivered == 3
    assert value("headwater_share_acknowledgements_total", type="accepted") - accepted == 2


def test_how_far_a_group_is_and_what_is_left(client: RawClient, group: str, member: Member, name: str) -> None:
    assert offsets_of(client, group) == {}
    done_with(client, member, name)
    client.produce(name, batch_of(b"a", b"b", b"c"))
    assert offsets_of(client, group) == {(name, 0): (10, 3)}
    assert describe_offsets(client, f"none-{uuid4().hex}").topics == []


def test_a_group_without_members_begins_again_where_it_is_told(
    client: RawClient, group: str, member: Member, name: str, topic_id: UUID
) -> None:
    done_with(client, member, name)
    assert error_of(alter_offset(client, group, name, 4)) == ErrorCode.NON_EMPTY_GROUP
    member.leave()
    altered = alter_offset(client, group, name, 4)
    assert [each.error_code for topic in altered.responses for each in topic.partitions] == [0]
    assert offsets_of(client, group) == {(name, 0): (4, 6)}
    for topic, offset, code in (
        (name, -1, ErrorCode.INVALID_REQUEST),
        (f"none-{uuid4().hex}", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ):
        altered = alter_offset(client, group, topic, offset)
        assert [each.error_code for topic in altered.responses for each in topic.partitions] == [code]
    assert Member(client, group).join(name, topic_id).fetch() == [(4, 9, 1)]


def test_a_group_that_does_not_exist_yet_may_be_told_where_to_begin(
    client: RawClient, name: str, topic_id: UUID
) -> None:
    client.produce(name, batch_of(b"a", b"b", b"c"))
    group = f"new-{uuid4().hex}"
    altered = alter_offset(client, group, name, 1)
    assert [each.error_code for topic in altered.responses for each in topic.partitions] == [0]
    assert offsets_of(client, group) == {(name, 0): (1, 2)}
    assert describe(client, group).group_state == "Empty"
    assert Member(client, group).join(name, topic_id).fetch() == [(1, 2, 1)]


def test_a_group_without_members_forgets_a_topic(client: RawClient, group: str, member: Member, name: str) -> None:
    done_with(client, member, name)
    assert error_of(delete_offsets(client, group, name)) == ErrorCode.NON_EMPTY_GROUP
    member.leave()
    assert [each.error_code for each in delete_offsets(client, group, name).responses] == [0]
    assert offsets_of(client, group) == {}
    unknown = delete_offsets(client, group, f"none-{uuid4().hex}")
    assert [each.error_code for each in unknown.responses] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    missing = delete_offsets(client, f"none-{uuid4().hex}", name)
    assert error_of(missing) == ErrorCode.GROUP_ID_NOT_FOUND


def begun(broker: Broker, group: str) -> int:
    """How many partitions the broker knows the group to read."""
    shares = broker.node.broker.shares
    machines = on_loop(broker, lambda: [each for machine in shares.machines() for each in machine.partitions])
    return sum(each.group_id == group for each in machines)


def test_deleting_a_group_deletes_what_it_has_done(
    broker: Broker, client: RawClient, group: str, member: Member, name: str, topic_id: UUID
) -> None:
    done_with(client, member, name)
    assert delete_group(client, group) == ErrorCode.NON_EMPTY_GROUP
    assert begun(broker, group) == 1
    member.leave()
    assert delete_group(client, group) == ErrorCode.NONE
    assert begun(broker, group) == 0
    assert delete_group(client, group) == ErrorCode.GROUP_ID_NOT_FOUND
    assert Member(client, group).join(name, topic_id).fetch() == [(0, 9, 1)], "the name may be used again"


def test_deleting_a_topic_deletes_what_groups_have_done_with_it(
    broker: Broker, client: RawClient, group: str, member: Member, name: str
) -> None:
    done_with(client, member, name)
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=10_000)
    (deleted,) = client.ask(request, DeleteTopicsResponse, 6).responses
    assert deleted.error_code == ErrorCode.NONE
    assert begun(broker, group) == 0
    member.topic_id = client.create(name)
    assert member.beat(name).error_code == ErrorCode.NONE
    done_with(client, Member(client, group).join(name, member.topic_id), name, 3)


def test_the_settings_of_a_group_are_those_of_share_groups(client: RawClient, group: str) -> None:
    configure(client, group, share_record_lock_duration_ms="1000", share_isolation_level="read_committed")
    with pytest.raises(AssertionError, match=r"group\.share\.max\.delivery\.count\.limit"):
        configure(client, group, share_delivery_count_limit="11")


def test_the_share_coordinator_is_found(client: RawClient) -> None:
    def find(key: str) -> int:
        request = FindCoordinatorRequest(key_type=2, coordinator_keys=[key])
        return client.ask(request, FindCoordinatorResponse, 6).coordinators[0].error_code

    assert find("billing:m9iyxGwzTsGkpGpuHI0_EA:3") == ErrorCode.NONE
    for key in ("", "billing", "billing:m9iyxGwzTsGkpGpuHI0_EA:x", "billing:short:3"):
        assert find(key) == ErrorCode.INVALID_REQUEST
