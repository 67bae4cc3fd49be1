"""ReceiveRecords (key 10020), v0, Headwater's own: records of a share group for a client that is no member.

Each record comes with a receipt, with which SettleRecords says what becomes of it.
"""

from headwater.protocol.wire.codec import Request, Response, Struct, field, int8, int16, int32, int64

# `reset`: where the group begins in a partition that is new to it, if it has no setting of its own.
RESET_DEFAULT, RESET_EARLIEST, RESET_LATEST = 0, 1, 2


class QueueHeader(Struct):
    name: str
    value: bytes | None


class ReceivedRecord(Struct):
    topic: str
    partition: int32
    offset: int64
    timestamp_ms: int64
    key: bytes | None
    value: bytes | None
    headers: list[QueueHeader]
    delivery_count: int16
    receipt: str


class ReceiveRecordsRequest(Request, key=10_020, versions="0", flexible="0+"):
    group_id: str
    topics: list[str]
    max_records: int32 = 1
    # Of keys, values and headers together; one record is given whatever its size.
    max_bytes: int32 = field(default=1 << 20)
    max_wait_ms: int32 = 0
    # How long the records are held; -1 as share.record.lock.duration.ms says.
    lock_duration_ms: int32 = field(default=-1)
    reset: int8 = 0


class ReceiveRecordsResponse(Response, key=10_020, versions="0", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    records: list[ReceivedRecord]
