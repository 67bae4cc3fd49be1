"""DescribeQuorum (key 55), v0-2, all flexible: v1 adds when replicas fetched, v2 messages, directories and nodes."""

from uuid import UUID

from headwater.protocol.messages.replicas import describe_quorum_topics
from headwater.protocol.wire.codec import Request, Response, Struct, field, int16, int32, int64, uint16


class DescribeQuorumRequest(Request, key=55, versions="0-2", flexible="0+"):
    topics: list[describe_quorum_topics.TopicData]


class ReplicaState(Struct):
    replica_id: int32
    replica_directory_id: UUID = field(versions="2+")
    log_end_offset: int64
    last_fetch_timestamp: int64 = field(versions="1+", default=-1)
    last_caught_up_timestamp: int64 = field(versions="1+", default=-1)


class PartitionData(Struct):
    partition_index: int32
    error_code: int16 = 0
    error_message: str | None = field(versions="2+")
    leader_id: int32 = 0
    leader_epoch: int32 = 0
    high_watermark: int64 = 0
    current_voters: list[ReplicaState] = field()
    observers: list[ReplicaState] = field()


class TopicData(Struct):
    topic_name: str
    partitions: list[PartitionData]


class Listener(Struct):
    name: str = field(versions="2+")
    host: str = field(versions="2+")
    port: uint16 = field(versions="2+")


class Node(Struct):
    node_id: int32 = field(versions="2+")
    listeners: list[Listener] = field(versions="2+")


class DescribeQuorumResponse(Response, key=55, versions="0-2", flexible="0+"):
    error_code: int16 = 0
    error_message: str | None = field(versions="2+")
    topics: list[TopicData] = field()
    nodes: list[Node] = field(versions="2+")
