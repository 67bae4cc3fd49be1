"""DescribeTransactions (key 65), v0."""

from headwater.protocol.wire.codec import Request, Response, Struct, field, int16, int32, int64

# Headwater's own tag, far from Kafka's, which are assigned from 0 on.
_PUBLISHED_BATCH_ID_TAG = 10_000


class DescribeTransactionsRequest(Request, key=65, versions="0", flexible="0+"):
    transactional_ids: list[str]


class TopicData(Struct):
    topic: str
    partitions: list[int32]


class TransactionState(Struct):
    error_code: int16 = 0
    transactional_id: str
    transaction_state: str = ""
    transaction_timeout_ms: int32 = 0
    transaction_start_time_ms: int64 = 0
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    topics: list[TopicData] = field()
    # The last batch of an application whose writers are published together.
    published_batch_id: int64 = field(tag=_PUBLISHED_BATCH_ID_TAG, default=-1)


class DescribeTransactionsResponse(Response, key=65, versions="0", flexible="0+"):
    throttle_time_ms: int32 = 0
    transaction_states: list[TransactionState]
