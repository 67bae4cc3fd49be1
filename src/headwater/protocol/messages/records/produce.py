"""Produce (key 0), v3-13: v9 is flexible, v10 tells where the leader is, v13 names topics by id."""

from uuid import UUID

from headwater.protocol.wire.codec import Records, Request, Response, Struct, field, int16, int32, int64


class PartitionProduceData(Struct):
    index: int32
    records: Records | None


class TopicProduceData(Struct):
    name: str = field(versions="0-12")
    topic_id: UUID = field(versions="13+")
    partition_data: list[PartitionProduceData]


class ProduceRequest(Request, key=0, versions="3-13", flexible="9+"):
    transactional_id: str | None = None
    acks: int16
    timeout_ms: int32
    topic_data: list[TopicProduceData]


class BatchIndexAndErrorMessage(Struct):
    batch_index: int32
    batch_index_error_message: str | None = None


class LeaderIdAndEpoch(Struct):
    leader_id: int32 = -1
    leader_epoch: int32 = -1


class PartitionProduceResponse(Struct):
    index: int32
    error_code: int16 = 0
    base_offset: int64
    log_append_time_ms: int64 = -1
    log_start_offset: int64 = field(versions="5+", default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = field(versions="8+")
    error_message: str | None = field(versions="8+")
    current_leader: LeaderIdAndEpoch = field(versions="10+", tag=0)


class TopicProduceResponse(Struct):
    name: str = field(versions="0-12")
    topic_id: UUID = field(versions="13+")
    partition_responses: list[PartitionProduceResponse]


class NodeEndpoint(Struct):
    node_id: int32
    host: str
    port: int32
    rack: str | None = None


class ProduceResponse(Response, key=0, versions="3-13", flexible="9+"):
    responses: list[TopicProduceResponse]
    throttle_time_ms: int32 = 0
    node_endpoints: list[NodeEndpoint] = field(versions="10+", tag=0)
