"""A transactional id and its transaction: v1 is flexible, and all later additions are tagged fields.

Kafka has the last producer epoch only in memory, so after a restart it refuses a client that repeats its request. Here
it is stored as well, under a tag that Kafka skips, and so is the batch that an application published last.
"""

from headwater.protocol.stored.record import Key
from headwater.protocol.wire.codec import Data, Struct, field, int8, int16, int32, int64

# Far from Kafka's tags, which are assigned from 0 on.
_LAST_PRODUCER_EPOCH_TAG, _PUBLISHED_BATCH_ID_TAG = 10_000, 10_001


class TransactionLogKey(Key, record_type=0):
    transactional_id: str


class PartitionsSchema(Struct):
    topic: str
    partition_ids: list[int32]


class TransactionLogValue(Data, versions="0-1", flexible="1+"):
    producer_id: int64
    previous_producer_id: int64 = field(versions="1+", tag=0, default=-1)
    next_producer_id: int64 = field(versions="1+", tag=1, default=-1)
    producer_epoch: int16
    next_producer_epoch: int16 = field(versions="1+", tag=3, default=-1)
    transaction_timeout_ms: int32
    transaction_status: int8
    transaction_partitions: list[PartitionsSchema] | None
    transaction_last_update_timestamp_ms: int64
    transaction_start_timestamp_ms: int64
    client_transaction_version: int16 = field(versions="1+", tag=2, default=0)
    last_producer_epoch: int16 = field(versions="1+", tag=_LAST_PRODUCER_EPOCH_TAG, default=-1)
    published_batch_id: int64 = field(versions="1+", tag=_PUBLISHED_BATCH_ID_TAG, default=-1)
