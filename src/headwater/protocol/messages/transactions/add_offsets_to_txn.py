"""AddOffsetsToTxn (key 25), v0-4: v3 is flexible, v2 and v4 add error codes."""

from headwater.protocol.wire.codec import Request, Response, int16, int32, int64


class AddOffsetsToTxnRequest(Request, key=25, versions="0-4", flexible="3+"):
    transactional_id: str
    producer_id: int64
    producer_epoch: int16
    group_id: str


class AddOffsetsToTxnResponse(Response, key=25, versions="0-4", flexible="3+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
