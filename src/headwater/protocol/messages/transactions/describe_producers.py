"""DescribeProducers (key 61), v0."""

from headwater.protocol.wire.codec import Request, Response, Struct, field, int16, int32, int64


class TopicRequest(Struct):
    name: str
    partition_indexes: list[int32]


class DescribeProducersRequest(Request, key=61, versions="0", flexible="0+"):
    topics: list[TopicRequest]


class ProducerState(Struct):
    producer_id: int64
    producer_epoch: int32
    last_sequence: int32 = -1
    last_timestamp: int64 = -1
    coordinator_epoch: int32
    current_txn_start_offset: int64 = -1


class PartitionResponse(Struct):
    partition_index: int32
    error_code: int16 = 0
    error_message: str | None = None
    active_producers: list[ProducerState] = field()


class TopicResponse(Struct):
    name: str
    partitions: list[PartitionResponse]


class DescribeProducersResponse(Response, key=61, versions="0", flexible="0+"):
    throttle_time_ms: int32 = 0
    topics: list[TopicResponse]
