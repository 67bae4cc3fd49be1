"""AlterPartitionReassignments (key 45), v0-1, all flexible: moves partitions to other nodes, or cancels that.

v1 lets the client forbid another replication factor, which a single node cannot give anyway."""

from headwater.errors import HeadwaterError
from headwater.ids import NodeId
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.replicas.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from headwater.security.acl import CLUSTER, Operation

REQUEST = AlterPartitionReassignmentsRequest


def handle(request: AlterPartitionReassignmentsRequest, context: Context) -> AlterPartitionReassignmentsResponse:
    denial = context.guard.denial(Operation.ALTER, CLUSTER)
    responses = [
        ReassignableTopicResponse(
            name=topic.name,
            partitions=[
                _response(each.partition_index, denial or _reassign(topic.name, each, context))
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    allows_factor = request.allow_replication_factor_change
    if denial is None:
        return AlterPartitionReassignmentsResponse(allow_replication_factor_change=allows_factor, responses=responses)
    return AlterPartitionReassignmentsResponse(error_code=denial.code, error_message=str(denial), responses=responses)


def _reassign(topic: str, requested: ReassignablePartition, context: Context) -> HeadwaterError | None:
    nodes = requested.replicas
    try:
        context.broker.replicas.reassign(
            topic, requested.partition_index, None if nodes is None else list(map(NodeId, nodes))
        )
    except HeadwaterError as refusal:
        return refusal.kept()
    return None


def _response(index: int, error: HeadwaterError | None) -> ReassignablePartitionResponse:
    if error is None:
        return ReassignablePartitionResponse(partition_index=index)
    return ReassignablePartitionResponse(partition_index=index, error_code=error.code, error_message=str(error))
