"""What a client may do to the cluster, a topic or a group, where it asks: without an authorizer, all that exists, and
with one, what the rules allow.

The numbers are those of Apache Kafka 4.x.
"""

import pytest

from headwater.ids import TopicName
from headwater.protocol.messages.cluster.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from headwater.protocol.messages.groups.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from headwater.protocol.messages.groups.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from headwater.protocol.messages.topics.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from headwater.protocol.messages.topics.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from headwater.security.acl import Acl, Operation, PatternType, Permission, ResourceType
from headwater.security.principals import ANONYMOUS
from headwater.testing import Broker
from tests.support.kafka.raw_client import RawClient
from tests.support.kafka.raw_groups import consumer_member, only_member

CLUSTER = 8096
TOPIC = 3576
GROUP = 3400
NOT_GIVEN = -(2**31)
READ = Operation.READ


@pytest.mark.parametrize("is_asked", [True, False])
@pytest.mark.parametrize("version", [8, 10, 11, 13])
def test_metadata_tells_the_operations_of_topics_and_in_old_versions_of_the_cluster(
    client: RawClient, topic: str, version: int, is_asked: bool
) -> None:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic), MetadataRequestTopic(name="unknown")],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=is_asked and version <= 10,
        include_topic_authorized_operations=is_asked,
    )

    told = client.ask(request, MetadataResponse, version)

    expected = TOPIC if is_asked else NOT_GIVEN
    assert [each.topic_authorized_operations for each in told.topics] == [expected, expected]
    assert told.cluster_authorized_operations == (CLUSTER if is_asked and version <= 10 else NOT_GIVEN)


def test_pages_of_metadata_tell_the_operations_of_topics_unasked(client: RawClient, topic: str) -> None:
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=topic), TopicRequest(name="unknown")])

    told = client.ask(request, DescribeTopicPartitionsResponse, 0)

    assert [each.topic_authorized_operations for each in told.topics] == [TOPIC, TOPIC]


@pytest.mark.parametrize(("is_asked", "expected"), [(True, CLUSTER), (False, NOT_GIVEN)])
def test_a_description_of_the_cluster_tells_its_operations_if_asked(
    client: RawClient, is_asked: bool, expected: int
) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=is_asked)

    assert client.ask(request, DescribeClusterResponse, 2).cluster_authorized_operations == expected


@pytest.mark.parametrize(("is_asked", "expected"), [(True, GROUP), (False, NOT_GIVEN)])
def test_descriptions_of_groups_tell_their_operations_if_asked(
    client: RawClient, topic: str, name: str, is_asked: bool, expected: int
) -> None:
    classic, consumer, missing = f"{name}-classic", f"{name}-consumer", f"{name}-missing"
    only_member(client, classic)
    consumer_member(client, consumer, topic)

    asked = DescribeGroupsRequest(groups=[classic, missing], include_authorized_operations=is_asked)
    told = client.ask(asked, DescribeGroupsResponse, 6)
    assert [each.authorized_operations for each in told.groups] == [expected, NOT_GIVEN]
    told = client.ask(asked, DescribeGroupsResponse, 5)
    assert [each.authorized_operations for each in told.groups] == [expected, expected], "one is dead, and no error"
    request = ConsumerGroupDescribeRequest(group_ids=[consumer, missing], include_authorized_operations=is_asked)
    described = client.ask(request, ConsumerGroupDescribeResponse, 1)
    assert [each.authorized_operations for each in described.groups] == [expected, NOT_GIVEN]


def test_with_rules_the_operations_are_those_that_are_allowed(name: str) -> None:
    """As in Kafka: a right to read, write, delete or alter is one to describe, too, and 0 is told of a cluster that the
    client may not describe."""
    with Broker({"authorizer.class.name": "acl"}) as broker, RawClient(broker) as client:
        broker.call(broker.node.broker.topics.create(TopicName(name), {}, partition_count=1))

        def allow(resource_type: ResourceType, resource: str, operation: Operation) -> None:
            acl = Acl(resource_type, resource, PatternType.LITERAL, str(ANONYMOUS), "*", operation, Permission.ALLOW)
            assert broker.call(broker.node.broker.access.rules.create([acl])) == [None]

        assert _told(client, name) == (NOT_GIVEN, 0, NOT_GIVEN)
        allow(ResourceType.TOPIC, name, Operation.WRITE)
        allow(ResourceType.GROUP, name, Operation.READ)
        only_member(client, name)
        assert _told(client, name) == (_bits(Operation.WRITE, Operation.DESCRIBE), 0, _bits(READ, Operation.DESCRIBE))
        allow(ResourceType.TOPIC, "*", Operation.ALTER_CONFIGS)
        allow(ResourceType.CLUSTER, "kafka-cluster", Operation.ALTER)
        topic = _bits(Operation.WRITE, Operation.DESCRIBE, Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS)
        cluster = _bits(Operation.ALTER, Operation.DESCRIBE)
        assert _told(client, name) == (topic, cluster, _bits(READ, Operation.DESCRIBE))


def _bits(*operations: Operation) -> int:
    return sum(1 << operation for operation in operations)


def _told(client: RawClient, name: str) -> tuple[int, int, int]:
    """Of the topic, the cluster, and the group of that name."""
    metadata = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    told = client.ask(metadata, MetadataResponse, 10)
    cluster = client.ask(
        DescribeClusterRequest(include_cluster_authorized_operations=True), DescribeClusterResponse, 2
    ).cluster_authorized_operations
    assert told.cluster_authorized_operations == cluster
    groups = DescribeGroupsRequest(groups=[name], include_authorized_operations=True)
    (group,) = client.ask(groups, DescribeGroupsResponse, 5).groups
    return told.topics[0].topic_authorized_operations, cluster, group.authorized_operations
