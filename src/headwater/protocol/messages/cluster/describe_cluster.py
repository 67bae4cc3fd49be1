"""DescribeCluster (key 60), v0-2, all flexible: v1 adds the kind of endpoint, v2 fenced brokers."""

from headwater.protocol.messages.topics.metadata import NO_AUTHORIZED_OPERATIONS
from headwater.protocol.wire.codec import Request, Response, Struct, field, int8, int16, int32


class DescribeClusterRequest(Request, key=60, versions="0-2", flexible="0+"):
    include_cluster_authorized_operations: bool = False
    endpoint_type: int8 = field(versions="1+", default=1)
    include_fenced_brokers: bool = field(versions="2+")


class DescribeClusterBroker(Struct):
    broker_id: int32
    host: str
    port: int32
    rack: str | None = None
    is_fenced: bool = field(versions="2+")


class DescribeClusterResponse(Response, key=60, versions="0-2", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    endpoint_type: int8 = field(versions="1+", default=1)
    cluster_id: str
    controller_id: int32 = -1
    brokers: list[DescribeClusterBroker]
    cluster_authorized_operations: int32 = NO_AUTHORIZED_OPERATIONS
