"""InitProducerId (key 22), v0-5: v2 is flexible, v3 lets a producer keep its id, v4 and v5 add error codes.

v6, for two-phase commit, is still unstable in Kafka 4.2, which does not accept it.
"""

from headwater.protocol.wire.codec import Request, Response, field, int16, int32, int64


class InitProducerIdRequest(Request, key=22, versions="0-5", flexible="2+"):
    transactional_id: str | None
    transaction_timeout_ms: int32
    producer_id: int64 = field(versions="3+", default=-1)
    producer_epoch: int16 = field(versions="3+", default=-1)


class InitProducerIdResponse(Response, key=22, versions="0-5", flexible="2+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    producer_id: int64 = -1
    producer_epoch: int16 = 0
