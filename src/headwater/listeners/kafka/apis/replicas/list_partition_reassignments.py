"""ListPartitionReassignments (key 46), v0, flexible: the partitions that are being moved, of which a single node has
none."""

from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.replicas.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from headwater.security.acl import CLUSTER, Operation

REQUEST = ListPartitionReassignmentsRequest


def handle(_: ListPartitionReassignmentsRequest, context: Context) -> ListPartitionReassignmentsResponse:
    denial = context.guard.denial(Operation.DESCRIBE, CLUSTER)
    if denial is not None:
        return ListPartitionReassignmentsResponse(error_code=denial.code, error_message=str(denial), topics=[])
    return ListPartitionReassignmentsResponse(topics=[])
