"""PeekRecords (key 10022), v0, Headwater's own: the first records that a share group is not done with.

Nothing is taken. `state` is Kafka's number: 0 available, 1 held by a client; or -1, waiting for its next delivery.
"""

from headwater.protocol.messages.shares.receive_records import QueueHeader
from headwater.protocol.wire.codec import Request, Response, Struct, field, int8, int16, int32, int64


class PeekedRecord(Struct):
    topic: str
    partition: int32
    offset: int64
    timestamp_ms: int64
    key: bytes | None
    value: bytes | None
    headers: list[QueueHeader]
    state: int8
    delivery_count: int16


class PeekRecordsRequest(Request, key=10_022, versions="0", flexible="0+"):
    group_id: str
    topics: list[str]
    max_records: int32 = 1
    max_bytes: int32 = field(default=1 << 20)


class PeekRecordsResponse(Response, key=10_022, versions="0", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    records: list[PeekedRecord]
