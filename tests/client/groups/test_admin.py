"""GroupAdmin: real groups, and scripted answers as older or odd brokers give them."""

from collections.abc import Iterator
from uuid import uuid4

import pytest
from confluent_kafka import Consumer as ConfluentConsumer

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.errors import ClientError, Refused, UnknownGroup, UnknownTopic
from headwater.client.groups.admin import GroupAdmin
from headwater.client.groups.group_consumer import GroupConsumer
from headwater.client.groups.group_offsets import CommittedOffset
from headwater.endpoint import Endpoint
from headwater.errors import ErrorCode
from headwater.ids import TopicName, TopicPartition
from headwater.protocol import consumer_protocol
from headwater.protocol.messages.groups import consumer_group_describe
from headwater.protocol.messages.groups.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from headwater.protocol.messages.groups.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from headwater.protocol.messages.groups.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from headwater.protocol.messages.groups.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from headwater.testing import Broker
from tests.support.client.scripted import patient
from tests.support.client.scripted_group import GROUP, ScriptedGroup, topic_id


@pytest.fixture
def admin(cluster: Cluster) -> GroupAdmin:
    return GroupAdmin(cluster)


@pytest.fixture
def name() -> str:
    return f"g-{uuid4().hex}"


@pytest.fixture
def partitions(cluster: Cluster, name: str) -> list[TopicPartition]:
    Admin(cluster).create_topic(name, partition_count=2)
    return [TopicPartition(TopicName(name), index) for index in range(2)]


@pytest.fixture
def member(cluster: Cluster, name: str, partitions: list[TopicPartition]) -> Iterator[GroupConsumer]:
    """A member that has all partitions."""
    with GroupConsumer(cluster, name, wait_ms_max=1) as consumer:
        consumer.subscribe([name])
        while set(consumer.positions) != set(partitions):
            consumer.poll()
        yield consumer


# -- at a real broker


def test_a_consumer_group_is_described(
    admin: GroupAdmin, broker: Broker, name: str, member: GroupConsumer, partitions: list[TopicPartition]
) -> None:
    described = admin.describe_group(name)
    assert (described.type, described.state, described.assignor) == ("consumer", "Stable", "uniform")
    assert described.epoch == described.assignment_epoch == 1
    assert described.coordinator.endpoint == Endpoint.parse(broker.bootstrap_servers)
    (found,) = described.members
    assert (found.member_id, found.client_id, found.protocol) == (member.member_id, "headwater", "consumer")
    assert "127.0.0.1" in found.host
    assert (found.topics, found.epoch) == ((name,), 1)
    assert found.assigned == found.target == tuple(partitions)


@pytest.mark.usefixtures("member")
def test_groups_are_listed_by_state_and_type(admin: GroupAdmin, name: str) -> None:
    def listed(**filters: list[str]) -> list[str]:
        return [found.group_id for found in admin.list_groups(**filters) if found.group_id == name]

    (found,) = [found for found in admin.list_groups() if found.group_id == name]
    assert (found.type, found.state, found.protocol_type) == ("consumer", "Stable", "consumer")
    assert listed(states=["Stable"]) == listed(types=["consumer"]) == listed(states=["Empty", "Stable"]) == [name]
    assert listed(states=["Empty"]) == listed(types=["classic"]) == []


def test_a_classic_group_is_described_as_its_clients_see_it(
    admin: GroupAdmin, broker: Broker, name: str, partitions: list[TopicPartition]
) -> None:
    consumer = ConfluentConsumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": name,
            "client.id": "app",
            "group.protocol": "classic",
        }
    )
    try:
        consumer.subscribe([name])
        while len(consumer.assignment()) < 2:
            consumer.poll(0.1)
        described = admin.describe_group(name)
    finally:
        consumer.close()
    assert (described.type, described.state, described.protocol_type) == ("classic", "Stable", "consumer")
    assert (described.assignor, described.epoch) == ("range", None)
    (found,) = described.members
    assert (found.client_id, found.protocol, found.epoch, found.topics) == ("app", "classic", None, (name,))
    assert found.assigned == tuple(partitions)


def test_offsets_are_committed_by_a_non_member_read_and_deleted(
    admin: GroupAdmin, name: str, partitions: list[TopicPartition]
) -> None:
    first, second = partitions
    admin.commit(name, {first: CommittedOffset(3, metadata="by hand"), second: CommittedOffset(4)})
    assert admin.committed(name) == {first: CommittedOffset(3, metadata="by hand"), second: CommittedOffset(4)}
    assert admin.committed(name, [second]) == {second: CommittedOffset(4)}
    assert (admin.describe_group(name).state, admin.describe_group(name).members) == ("Empty", ())
    admin.delete_offsets(name, [first])
    assert admin.committed(name) == {second: CommittedOffset(4)}
    admin.delete_group(name)
    with pytest.raises(UnknownGroup, match=f"group '{name}' does not exist"):
        admin.describe_group(name)
    assert admin.committed(name) == {}


@pytest.mark.usefixtures("member")
def test_a_group_with_members_keeps_its_offsets(admin: GroupAdmin, name: str, partitions: list[TopicPartition]) -> None:
    with pytest.raises(Refused, match=rf"group '{name}'.*\(NON_EMPTY_GROUP\)"):
        admin.delete_group(name)
    with pytest.raises(Refused, match=r"\(UNKNOWN_MEMBER_ID\)"):
        admin.commit(name, {partitions[0]: CommittedOffset(0)})
    with pytest.raises(Refused, match=r"\(GROUP_SUBSCRIBED_TO_TOPIC\)"):
        admin.delete_offsets(name, partitions)


def test_a_missing_group_or_topic_is_an_error_at_once(admin: GroupAdmin) -> None:
    for attempt in (
        lambda: admin.describe_group("nosuch"),
        lambda: admin.delete_group("nosuch"),
        lambda: admin.delete_offsets("nosuch", [TopicPartition(TopicName("nosuch"), 0)]),
    ):
        with pytest.raises(UnknownGroup, match="group 'nosuch' does not exist"):
            attempt()
    with pytest.raises(UnknownTopic, match="partition nosuch-0 does not exist"):
        admin.commit("some", {TopicPartition(TopicName("nosuch"), 0): CommittedOffset(0)})


# -- scripted answers


@pytest.fixture
def scripted() -> Iterator[ScriptedGroup]:
    with ScriptedGroup() as group:
        yield group


def classic(state: str = "Stable", protocol_type: str = "consumer", *members: DescribedGroupMember) -> DescribedGroup:
    return DescribedGroup(
        group_id=GROUP, group_state=state, protocol_type=protocol_type, protocol_data="range", members=list(members)
    )


def member_with(metadata: bytes, assignment: bytes) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id="m", client_id="c", client_host="/h", member_metadata=metadata, member_assignment=assignment
    )


SUBSCRIBED = consumer_protocol.write_subscription(consumer_protocol.Subscription([TopicName("orders")]))
ASSIGNED = consumer_protocol.write_assignment({TopicName("orders"): [1]})


@pytest.mark.parametrize(
    ("protocol_type", "metadata", "assignment", "topics", "assigned"),
    [
        ("consumer", SUBSCRIBED, ASSIGNED, ("orders",), (TopicPartition(TopicName("orders"), 1),)),
        ("consumer", SUBSCRIBED, b"\x00\x00\x7f\xff\xff\xff", ("orders",), ()),
        ("consumer", b"", b"", (), ()),
        ("connect", SUBSCRIBED, ASSIGNED, (), ()),
    ],
)
def test_subscriptions_and_assignments_of_classic_members_are_decoded_if_valid(
    scripted: ScriptedGroup,
    protocol_type: str,
    metadata: bytes,
    assignment: bytes,
    topics: tuple[str, ...],
    assigned: tuple[TopicPartition, ...],
) -> None:
    group = classic("Stable", protocol_type, member_with(metadata, assignment))
    scripted.scripts[DescribeGroupsRequest] = lambda _: DescribeGroupsResponse(groups=[group])
    with patient(scripted.bootstrap) as cluster:
        # Like an old broker, the scripted one does not know the next-generation protocol.
        (found,) = GroupAdmin(cluster).describe_group(GROUP).members
    assert (found.topics, found.assigned) == (topics, assigned)


def test_a_dead_group_of_an_old_broker_does_not_exist(scripted: ScriptedGroup) -> None:
    scripted.scripts[DescribeGroupsRequest] = lambda _: DescribeGroupsResponse(groups=[classic("Dead")])
    with patient(scripted.bootstrap) as cluster, pytest.raises(UnknownGroup):
        GroupAdmin(cluster).describe_group(GROUP)


def test_a_consumer_group_may_have_classic_members_and_regular_expressions(scripted: ScriptedGroup) -> None:
    def assignment(*partitions: int) -> consumer_group_describe.Assignment:
        topic = consumer_group_describe.TopicPartitions(
            topic_id=topic_id("orders"), topic_name="orders", partitions=list(partitions)
        )
        return consumer_group_describe.Assignment(topic_partitions=[topic])

    member = consumer_group_describe.Member(
        member_id="m",
        instance_id="i",
        member_epoch=4,
        client_id="c",
        client_host="/h",
        subscribed_topic_names=[],
        subscribed_topic_regex="ord.*",
        assignment=assignment(1, 0),
        target_assignment=assignment(1),
        member_type=0,
    )
    group = consumer_group_describe.DescribedGroup(
        group_id=GROUP, group_state="Reconciling", group_epoch=5, assignment_epoch=5, members=[member]
    )
    scripted.scripts[ConsumerGroupDescribeRequest] = lambda _: ConsumerGroupDescribeResponse(groups=[group])
    with patient(scripted.bootstrap) as cluster:
        described = GroupAdmin(cluster).describe_group(GROUP)
    (found,) = described.members
    assert (described.state, described.epoch) == ("Reconciling", 5)
    assert (found.protocol, found.instance_id, found.topic_regex) == ("classic", "i", "ord.*")
    assert [partition.partition for partition in found.assigned] == [0, 1]
    assert [partition.partition for partition in found.target] == [1]


def test_listing_waits_for_a_loading_coordinator(scripted: ScriptedGroup) -> None:
    listed = ListedGroup(group_id="g", protocol_type="consumer", group_state="Empty", group_type="Classic")
    answers = [
        ListGroupsResponse(groups=[listed]),
        ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, groups=[]),
    ]
    scripted.scripts[ListGroupsRequest] = lambda _: answers.pop()
    with patient(scripted.bootstrap) as cluster:
        assert GroupAdmin(cluster).list_groups() == [("g", "classic", "consumer", "Empty")]


def test_a_commit_response_that_leaves_out_a_partition_is_an_error(scripted: ScriptedGroup) -> None:
    scripted.scripts[OffsetCommitRequest] = lambda _: OffsetCommitResponse(topics=[])
    offsets = {TopicPartition(TopicName("orders"), 0): CommittedOffset(0)}
    with patient(scripted.bootstrap) as cluster, pytest.raises(ClientError, match="leaves out orders-0"):
        GroupAdmin(cluster).commit(GROUP, offsets)
