"""DescribeQuorum (key 55), v0-2, all flexible: who agrees on the metadata, and how far its log is. A single node agrees
with itself, and the log is that of the catalog.

v1 adds when replicas fetched, v2 messages, directories and nodes."""

from headwater.broker.broker import Broker
from headwater.errors import ErrorCode
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.replicas.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)
from headwater.security.acl import CLUSTER, Operation

REQUEST = DescribeQuorumRequest

# Kafka's name for the log of the metadata.
METADATA_TOPIC = "__cluster_metadata"


def handle(request: DescribeQuorumRequest, context: Context) -> DescribeQuorumResponse:
    denial = context.guard.denial(Operation.DESCRIBE, CLUSTER)
    if denial is not None:
        return DescribeQuorumResponse(error_code=denial.code, error_message=str(denial), topics=[])
    asked = [(topic.topic_name, [each.partition_index for each in topic.partitions]) for topic in request.topics]
    if asked != [(METADATA_TOPIC, [0])]:
        return DescribeQuorumResponse(
            topics=[
                TopicData(topic_name=name, partitions=[_unknown(index) for index in indexes]) for name, indexes in asked
            ]
        )
    return DescribeQuorumResponse(
        topics=[TopicData(topic_name=METADATA_TOPIC, partitions=[_metadata(context.broker)])],
        nodes=[
            Node(
                node_id=node.id,
                listeners=[Listener(name=context.listener, host=node.endpoint.host, port=node.endpoint.port)],
            )
            for node in context.broker.leadership.nodes(context.listener)
        ],
    )


def _unknown(index: int) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        error_message=f"only partition 0 of {METADATA_TOPIC} has a quorum",
        current_voters=[],
        observers=[],
    )


def _metadata(broker: Broker) -> PartitionData:
    log, leader = broker.metadata.log, broker.leadership.controller_id
    now_ms = broker.clock.now_ms()
    return PartitionData(
        partition_index=0,
        leader_id=leader,
        leader_epoch=log.leader_epoch,
        high_watermark=log.end_offset,
        current_voters=[
            ReplicaState(
                replica_id=leader,
                log_end_offset=log.end_offset,
                last_fetch_timestamp=now_ms,
                last_caught_up_timestamp=now_ms,
            )
        ],
        observers=[],
    )
