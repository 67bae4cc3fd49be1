"""DescribeCluster (key 60), v0-2, all flexible: the brokers that clients of this listener can reach.

v1 adds the type of endpoint, of which only brokers are served; v2 adds fenced brokers, of which there are none."""

from headwater.errors import ErrorCode
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.cluster.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from headwater.protocol.messages.topics.metadata import NO_AUTHORIZED_OPERATIONS
from headwater.security.acl import CLUSTER

REQUEST = DescribeClusterRequest

BROKER_ENDPOINT = 1
CONTROLLER_ENDPOINT = 2


def handle(request: DescribeClusterRequest, context: Context) -> DescribeClusterResponse:
    broker = context.broker
    if request.endpoint_type != BROKER_ENDPOINT:
        code = (
            ErrorCode.MISMATCHED_ENDPOINT_TYPE
            if request.endpoint_type == CONTROLLER_ENDPOINT
            else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        )
        return DescribeClusterResponse(
            error_code=code,
            error_message=f"endpoint type {request.endpoint_type} is not served by a broker",
            cluster_id="",
            brokers=[],
        )
    return DescribeClusterResponse(
        cluster_id=broker.cluster_id,
        controller_id=broker.leadership.controller_id,
        brokers=[
            DescribeClusterBroker(broker_id=node.id, host=node.endpoint.host, port=node.endpoint.port, rack=node.rack)
            for node in broker.leadership.nodes(context.listener)
        ],
        cluster_authorized_operations=context.guard.operations(CLUSTER)
        if request.include_cluster_authorized_operations
        else NO_AUTHORIZED_OPERATIONS,
    )
