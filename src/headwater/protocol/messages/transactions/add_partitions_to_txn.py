"""AddPartitionsToTxn (key 24), v0-5: v3 is flexible, v4 takes many transactions, also to verify only, v5 an error code.

Clients use versions up to 3; the others are for brokers that ask the coordinator.
"""

from headwater.protocol.wire.codec import Request, Response, Struct, field, int16, int32, int64


class AddPartitionsToTxnTopic(Struct):
    name: str
    partitions: list[int32]


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: str
    producer_id: int64
    producer_epoch: int16
    verify_only: bool = False
    topics: list[AddPartitionsToTxnTopic]


class AddPartitionsToTxnRequest(Request, key=24, versions="0-5", flexible="3+"):
    transactions: list[AddPartitionsToTxnTransaction] = field(versions="4+")
    v3_and_below_transactional_id: str = field(versions="0-3")
    v3_and_below_producer_id: int64 = field(versions="0-3")
    v3_and_below_producer_epoch: int16 = field(versions="0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(versions="0-3")


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int32
    partition_error_code: int16 = 0


class AddPartitionsToTxnTopicResult(Struct):
    name: str
    results_by_partition: list[AddPartitionsToTxnPartitionResult]


class AddPartitionsToTxnResult(Struct):
    transactional_id: str
    topic_results: list[AddPartitionsToTxnTopicResult]


class AddPartitionsToTxnResponse(Response, key=24, versions="0-5", flexible="3+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = field(versions="4+")
    results_by_transaction: list[AddPartitionsToTxnResult] = field(versions="4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(versions="0-3")
