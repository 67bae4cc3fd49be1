"""The measurements of a running broker."""

from collections.abc import Iterator

import pytest

from headwater.broker.measurements import TIMED_EVERY
from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.coordinator import GroupCoordinator
from headwater.client.errors import Refused, UnknownTopic
from headwater.client.groups.group_offsets import CommittedOffset, commit_offsets
from headwater.client.metrics import read_metrics
from headwater.client.producer import Producer
from headwater.ids import GroupId, NodeId, TopicName, TopicPartition
from headwater.testing import Broker


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def numbers(cluster: Cluster, prefix: str) -> dict[tuple[str, ...], float]:
    """Values by metric name and label values."""
    (families,) = read_metrics(cluster, prefix).values()
    return {
        (family.name + each.suffix, *(value for _, value in each.labels)): each.value
        for family in families
        for each in family.samples
    }


def test_requests_and_their_errors_are_counted_by_api(broker: Broker) -> None:
    with Cluster(broker.bootstrap_servers) as cluster:
        admin = Admin(cluster)
        admin.create_topic("t", partition_count=1)
        with pytest.raises(Refused):
            admin.create_topic("t", partition_count=1)
        with pytest.raises(UnknownTopic):
            admin.delete_topic("nobody")
        assert numbers(cluster, "headwater_requests_total")["headwater_requests_total", "CreateTopics"] == 2
        errors = numbers(cluster, "headwater_request_errors_total")
        assert errors["headwater_request_errors_total", "CreateTopics", "TOPIC_ALREADY_EXISTS"] == 1
        assert errors["headwater_request_errors_total", "DeleteTopics", "UNKNOWN_TOPIC_OR_PARTITION"] == 1
        for _ in range(TIMED_EVERY):
            admin.list_topics()
        assert numbers(cluster, "headwater_request_seconds")["headwater_request_seconds_count", "Metadata"] >= 1


def test_partition_group_and_lag_gauges_follow_the_state(broker: Broker) -> None:
    where = TopicPartition(TopicName("t"), 0)
    with Cluster(broker.bootstrap_servers) as cluster:
        Admin(cluster).create_topic("t", partition_count=2)
        with Producer(cluster) as producer:
            for number in range(5):
                producer.send("t", b"value", partition=0, key=b"%d" % number)
        commit_offsets(GroupCoordinator(cluster, GroupId("readers")), {where: CommittedOffset(2)})
        found = numbers(cluster, "headwater_")
    assert found["headwater_partition_high_watermark", "t", "0"] == 5
    assert found["headwater_partition_start_offset", "t", "1"] == 0
    assert found["headwater_partition_size_bytes", "t", "0"] > 0
    assert found["headwater_group_offset", "readers", "t", "0"] == 2
    assert found["headwater_group_lag", "readers", "t", "0"] == 3
    assert found["headwater_groups",] == 1
    assert found["headwater_topics",] == 2
    assert found["headwater_partitions_offline",] == 0
    assert found["headwater_flush_seconds_count",] > 0
    assert found["headwater_connections",] >= 1
    assert found["headwater_network_received_bytes_total",] > 0
    assert found["headwater_network_sent_bytes_total",] > 0


def test_each_broker_has_measurements_of_its_own(broker: Broker) -> None:
    with Broker() as other, Cluster(other.bootstrap_servers) as cluster:
        assert numbers(cluster, "headwater_connections_accepted_total")["headwater_connections_accepted_total",] == 1
        assert list(read_metrics(cluster)) == [NodeId(1)]
    with Cluster(broker.bootstrap_servers) as cluster:
        assert numbers(cluster, "headwater_connections_accepted_total")["headwater_connections_accepted_total",] == 1
