"""Elections, reassignments and the quorum: a single node answers as a single node of Kafka does.

The answers are compared with Apache Kafka's in `tests/interop/differential`.
"""

import pytest

from headwater.errors import ErrorCode
from headwater.protocol.messages.replicas.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from headwater.protocol.messages.replicas.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from headwater.protocol.messages.replicas.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)
from headwater.protocol.messages.replicas.describe_quorum_topics import PartitionData, TopicData
from headwater.protocol.messages.replicas.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from headwater.protocol.messages.replicas.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from headwater.protocol.messages.topics.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from headwater.testing import Broker
from tests.support.kafka.raw_client import RawClient

PREFERRED, UNCLEAN = 0, 1


@pytest.fixture
def node_id(broker: Broker) -> int:
    return broker.node.broker.leadership.node_id


def elect(
    client: RawClient, kind: int, partitions: dict[str, list[int]] | None, version: int = 2
) -> ElectLeadersResponse:
    named = None
    if partitions is not None:
        named = [TopicPartitions(topic=topic, partitions=indexes) for topic, indexes in partitions.items()]
    request = ElectLeadersRequest(election_type=kind, topic_partitions=named)
    return client.ask(request, ElectLeadersResponse, version)


def told(response: ElectLeadersResponse) -> dict[tuple[str, int], int]:
    return {
        (topic.topic, each.partition_id): each.error_code
        for topic in response.replica_election_results
        for each in topic.partition_result
    }


@pytest.mark.parametrize("kind", [PREFERRED, UNCLEAN])
def test_no_election_is_needed_where_there_is_a_leader(client: RawClient, topic: str, kind: int) -> None:
    response = elect(client, kind, {topic: [0, 1], "unknown": [0]})

    assert response.error_code == 0
    assert told(response) == {
        (topic, 0): ErrorCode.ELECTION_NOT_NEEDED,
        (topic, 1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("unknown", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


@pytest.mark.parametrize("version", range(3))
def test_an_election_in_all_partitions_names_only_those_that_need_one(
    client: RawClient, topic: str, version: int
) -> None:
    response = elect(client, PREFERRED, None, version)

    assert response.error_code == 0
    assert topic in [each.topic for each in response.replica_election_results]
    assert told(response) == {}


async def fail(broker: Broker) -> None:
    """As if the disk had: the partition goes out of service."""
    broker.node.broker.partition("broken", 0).flush_failed("to test")


@pytest.mark.parametrize(
    ("kind", "code"),
    [(PREFERRED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE), (UNCLEAN, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)],
)
def test_nobody_can_lead_a_partition_that_is_offline(kind: int, code: ErrorCode) -> None:
    with Broker() as broker, RawClient(broker) as client:
        client.create("broken")
        client.create("sound")
        broker.call(fail(broker))

        assert told(elect(client, kind, {"broken": [0]})) == {("broken", 0): code}
        assert told(elect(client, kind, None)) == {("broken", 0): code}


def test_an_unknown_kind_of_election_is_refused(client: RawClient, topic: str) -> None:
    response = elect(client, 7, {topic: [0]})

    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert told(response) == {(topic, 0): ErrorCode.INVALID_REQUEST}


@pytest.mark.parametrize("version", range(2))
def test_a_partition_can_be_reassigned_only_to_this_node(
    client: RawClient, topic: str, node_id: int, version: int
) -> None:
    targets: list[tuple[int, list[int] | None, int]] = [
        (0, [node_id], ErrorCode.NONE),
        (0, [node_id + 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (0, [node_id, node_id + 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (0, [node_id, node_id], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (0, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        (1, [node_id], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (-1, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    request = AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(
                name=topic,
                partitions=[
                    ReassignablePartition(partition_index=index, replicas=replicas) for index, replicas, _ in targets
                ],
            )
        ]
    )
    response = client.ask(request, AlterPartitionReassignmentsResponse, version)

    assert response.error_code == 0
    assert [each.error_code for each in response.responses[0].partitions] == [code for *_, code in targets]


def test_no_partition_is_being_reassigned(client: RawClient) -> None:
    response = client.ask(ListPartitionReassignmentsRequest(), ListPartitionReassignmentsResponse, 0)

    assert (response.error_code, response.topics) == (0, [])


@pytest.mark.parametrize("version", [1, 2])
def test_a_replica_can_be_moved_only_to_the_directory_where_it_is(client: RawClient, topic: str, version: int) -> None:
    (here,) = client.ask(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, 4).results
    long = "t" * 220

    def move(path: str, name: str, index: int) -> int:
        topics = [AlterReplicaLogDirTopic(name=name, partitions=[index])]
        request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)])
        (moved,) = client.ask(request, AlterReplicaLogDirsResponse, version).results
        return moved.partitions[0].error_code

    assert move(here.log_dir, topic, 0) == ErrorCode.NONE
    assert move(here.log_dir, topic, 1) == ErrorCode.REPLICA_NOT_AVAILABLE
    assert move(here.log_dir, "unknown", 0) == ErrorCode.REPLICA_NOT_AVAILABLE
    assert move("/elsewhere", topic, 0) == ErrorCode.LOG_DIR_NOT_FOUND
    assert move(here.log_dir, long, 0) == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_the_directory_that_is_named_last_for_a_replica_counts(client: RawClient, topic: str) -> None:
    (here,) = client.ask(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, 4).results
    topics = [AlterReplicaLogDirTopic(name=topic, partitions=[0])]
    dirs = [AlterReplicaLogDir(path=path, topics=topics) for path in ("/elsewhere", here.log_dir)]
    (moved,) = client.ask(AlterReplicaLogDirsRequest(dirs=dirs), AlterReplicaLogDirsResponse, 2).results

    assert [each.error_code for each in moved.partitions] == [ErrorCode.NONE]


def quorum(client: RawClient, topic: str, *indexes: int, version: int = 2) -> DescribeQuorumResponse:
    partitions = [PartitionData(partition_index=index) for index in indexes]
    request = DescribeQuorumRequest(topics=[TopicData(topic_name=topic, partitions=partitions)])
    return client.ask(request, DescribeQuorumResponse, version)


@pytest.mark.parametrize("version", range(3))
def test_the_node_is_its_own_quorum_whose_log_grows_with_each_change(
    client: RawClient, name: str, node_id: int, version: int
) -> None:
    def described() -> int:
        response = quorum(client, "__cluster_metadata", 0, version=version)
        (partition,) = response.topics[0].partitions
        (voter,) = partition.current_voters
        assert (response.error_code, partition.error_code, partition.leader_id) == (0, 0, node_id)
        assert (voter.replica_id, voter.log_end_offset) == (node_id, partition.high_watermark)
        return partition.high_watermark

    before = described()
    client.create(name)
    assert described() > before


def test_no_other_partition_has_a_quorum(client: RawClient, topic: str) -> None:
    for name, indexes in ((topic, [0]), ("__cluster_metadata", [1]), ("__cluster_metadata", [0, 1])):
        (described,) = quorum(client, name, *indexes).topics
        assert {each.error_code for each in described.partitions} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
