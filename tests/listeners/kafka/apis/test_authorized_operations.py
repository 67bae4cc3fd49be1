"""What a client may do to the cluster, a topic or a group, where it asks: without an authorizer, all that exists.

The numbers are those of Apache Kafka 4.x.
"""

import pytest

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
from tests.support.kafka.raw_client import RawClient
from tests.support.kafka.raw_groups import consumer_member, only_member

CLUSTER = 8096
TOPIC = 3576
GROUP = 3400
NOT_GIVEN = -(2**31)


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
