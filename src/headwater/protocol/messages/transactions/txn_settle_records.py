"""TxnSettleRecords (key 10030), v0, Headwater's own: what becomes of received records if a transaction is committed.

As SettleRecords; the types are accept and reject. The request makes the group's state a part of the transaction, so
that no other request comes before it.
"""

from headwater.protocol.wire.codec import Request, Response, Struct, int8, int16, int32, int64


class TxnSettlement(Struct):
    receipt: str
    type: int8


class TxnSettleRecordsRequest(Request, key=10_030, versions="0", flexible="0+"):
    transactional_id: str
    producer_id: int64
    producer_epoch: int16
    group_id: str
    settlements: list[TxnSettlement]


class TxnSettleResult(Struct):
    error_code: int16 = 0
    error_message: str | None = None


class TxnSettleRecordsResponse(Response, key=10_030, versions="0", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    # In the order of the request.
    results: list[TxnSettleResult]
