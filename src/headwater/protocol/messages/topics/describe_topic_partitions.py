"""DescribeTopicPartitions (key 75), v0, flexible: Metadata in pages, each resumed from a cursor."""

from uuid import UUID

from headwater.protocol.messages.topics.metadata import NO_AUTHORIZED_OPERATIONS
from headwater.protocol.wire.codec import Request, Response, Struct, field, int16, int32


class TopicRequest(Struct):
    name: str


class Cursor(Struct):
    topic_name: str
    partition_index: int32


class DescribeTopicPartitionsRequest(Request, key=75, versions="0", flexible="0+"):
    topics: list[TopicRequest]
    response_partition_limit: int32 = 2000
    cursor: Cursor | None = None


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: int16 = 0
    partition_index: int32
    leader_id: int32
    leader_epoch: int32 = -1
    replica_nodes: list[int32]
    isr_nodes: list[int32]
    eligible_leader_replicas: list[int32] | None = None
    last_known_elr: list[int32] | None = None
    offline_replicas: list[int32] = field()


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: int16 = 0
    name: str | None = field(default="")
    topic_id: UUID = field()
    is_internal: bool = False
    partitions: list[DescribeTopicPartitionsResponsePartition]
    topic_authorized_operations: int32 = NO_AUTHORIZED_OPERATIONS


class DescribeTopicPartitionsResponse(Response, key=75, versions="0", flexible="0+"):
    throttle_time_ms: int32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic]
    next_cursor: Cursor | None = None
