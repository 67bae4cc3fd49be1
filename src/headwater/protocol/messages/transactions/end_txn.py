"""EndTxn (key 26), v0-5: v3 is flexible, v2 and v4 add error codes, v5 raises the epoch and tells the new one."""

from headwater.protocol.wire.codec import Request, Response, field, int16, int32, int64


class EndTxnRequest(Request, key=26, versions="0-5", flexible="3+"):
    transactional_id: str
    producer_id: int64
    producer_epoch: int16
    committed: bool


class EndTxnResponse(Response, key=26, versions="0-5", flexible="3+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    producer_id: int64 = field(versions="5+", default=-1)
    producer_epoch: int16 = field(versions="5+", default=-1)
