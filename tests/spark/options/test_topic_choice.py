"""Resolving a choice of topics to its current partitions."""

import pytest

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.errors import UnknownTopic
from headwater.ids import TopicName
from headwater.spark.options.topic_choice import TopicChoice
from headwater.testing import Broker
from tests.support.spark.reads import one


@pytest.fixture(params=["names", "pattern", "partitions"])
def choice(request: pytest.FixtureRequest, topic: str) -> TopicChoice:
    """The first two partitions of the topic, chosen by each option in turn."""
    match request.param:
        case "names":
            return TopicChoice(names=(TopicName(topic),))
        case "pattern":
            return TopicChoice(pattern=topic)
        case _:
            return TopicChoice(partitions=(one(topic, 0), one(topic, 1)))


def test_partitions_are_looked_up_again_at_each_call(cluster: Cluster, choice: TopicChoice, topic: str) -> None:
    admin = Admin(cluster)
    assert choice.find(cluster, missing_allowed=True) == []
    admin.create_topic(topic, partition_count=1)
    assert choice.find(cluster, missing_allowed=True) == [one(topic, 0)]
    admin.add_partitions(topic, 2)
    assert choice.find(cluster) == [one(topic, 0), one(topic, 1)]
    admin.delete_topic(topic)
    assert choice.find(cluster, missing_allowed=True) == []


def test_only_a_pattern_may_match_nothing(headwater_broker: Broker, choice: TopicChoice, topic: str) -> None:
    with Cluster(headwater_broker.bootstrap_servers, topic_wait_ms=0) as cluster:
        _check_missing(cluster, choice, topic)


def _check_missing(cluster: Cluster, choice: TopicChoice, topic: str) -> None:
    if choice.pattern is not None:
        assert choice.find(cluster) == []
        return
    with pytest.raises(UnknownTopic, match=topic):
        choice.find(cluster)


def test_a_pattern_must_match_the_whole_name(cluster: Cluster, topic: str) -> None:
    Admin(cluster).create_topic(topic, partition_count=1)
    assert TopicChoice(pattern=topic[:-1]).find(cluster) == []
    assert TopicChoice(pattern=f"{topic[:-1]}.").find(cluster) == [one(topic)]
    assert TopicChoice(pattern=f"nothing|{topic}").find(cluster) == [one(topic)]
