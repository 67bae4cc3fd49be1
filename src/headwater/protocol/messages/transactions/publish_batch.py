"""PublishBatch (key 10000), v0: an API of Headwater's own, under a key far from Kafka's.

Commits the transactions of several writers, `<application id>::staging::...`, in one step and remembers the batch, or
aborts them.
"""

from headwater.protocol.wire.codec import Request, Response, Struct, field, int16, int32, int64


class PublishedWriter(Struct):
    transactional_id: str
    producer_id: int64
    producer_epoch: int16


class PublishBatchRequest(Request, key=10_000, versions="0", flexible="0+"):
    application_id: str
    batch_id: int64
    committed: bool
    writers: list[PublishedWriter]


class PublishBatchResponse(Response, key=10_000, versions="0", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    # The batch had been published before, so the transactions of this attempt are aborted.
    is_replay: bool = False
    # The last published batch of the application; -1 if there is none.
    published_batch_id: int64 = field(default=-1)
