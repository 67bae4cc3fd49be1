"""Metadata (key 3), v0-13: v1 makes null mean all topics, v9 is flexible, v10 and v12 add topics by id."""

from uuid import UUID

from headwater.protocol.wire.codec import Request, Response, Struct, field, int16, int32

# In place of a bit field of allowed operations: the client did not ask for them.
NO_AUTHORIZED_OPERATIONS = -(2**31)


class MetadataRequestTopic(Struct):
    topic_id: UUID = field(versions="10+")
    name: str | None = field(nullable="10+", default="")


class MetadataRequest(Request, key=3, versions="0-13", flexible="9+"):
    topics: list[MetadataRequestTopic] | None = field(nullable="1+", default=[])
    allow_auto_topic_creation: bool = field(versions="4+", default=True)
    include_cluster_authorized_operations: bool = field(versions="8-10")
    include_topic_authorized_operations: bool = field(versions="8+")


class MetadataResponseBroker(Struct):
    node_id: int32
    host: str
    port: int32
    rack: str | None = field(versions="1+")


class MetadataResponsePartition(Struct):
    error_code: int16 = 0
    partition_index: int32
    leader_id: int32
    leader_epoch: int32 = field(versions="7+", default=-1)
    replica_nodes: list[int32]
    isr_nodes: list[int32]
    offline_replicas: list[int32] = field(versions="5+")


class MetadataResponseTopic(Struct):
    error_code: int16 = 0
    name: str | None = field(nullable="12+", default="")
    topic_id: UUID = field(versions="10+")
    is_internal: bool = field(versions="1+", default=False)
    partitions: list[MetadataResponsePartition]
    topic_authorized_operations: int32 = field(versions="8+", default=NO_AUTHORIZED_OPERATIONS)


class MetadataResponse(Response, key=3, versions="0-13", flexible="9+"):
    throttle_time_ms: int32 = field(versions="3+")
    brokers: list[MetadataResponseBroker]
    cluster_id: str | None = field(versions="2+")
    controller_id: int32 = field(versions="1+", default=-1)
    topics: list[MetadataResponseTopic]
    cluster_authorized_operations: int32 = field(versions="8-10", default=NO_AUTHORIZED_OPERATIONS)
    error_code: int16 = field(versions="13+")
