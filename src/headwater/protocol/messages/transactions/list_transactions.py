"""ListTransactions (key 66), v0-2: v1 filters by duration, v2 by a regular expression."""

from headwater.protocol.wire.codec import Request, Response, Struct, field, int16, int32, int64


class ListTransactionsRequest(Request, key=66, versions="0-2", flexible="0+"):
    state_filters: list[str]
    producer_id_filters: list[int64]
    duration_filter: int64 = field(versions="1+", default=-1)
    transactional_id_pattern: str | None = field(versions="2+")


class TransactionState(Struct):
    transactional_id: str
    producer_id: int64
    transaction_state: str


class ListTransactionsResponse(Response, key=66, versions="0-2", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    unknown_state_filters: list[str] = field()
    transaction_states: list[TransactionState] = field()
