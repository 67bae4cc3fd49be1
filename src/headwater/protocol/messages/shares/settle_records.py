"""SettleRecords (key 10021), v0, Headwater's own: what becomes of received records, each named by its receipt.

The types are those of ShareAcknowledge: accept, release, reject, renew.
"""

from headwater.protocol.wire.codec import Request, Response, Struct, field, int8, int16, int32


class Settlement(Struct):
    receipt: str
    type: int8
    # How long a released record waits, or a renewed one is held from now on; -1 as the group's settings say.
    duration_ms: int32 = field(default=-1)


class SettleRecordsRequest(Request, key=10_021, versions="0", flexible="0+"):
    group_id: str
    settlements: list[Settlement]


class SettleResult(Struct):
    error_code: int16 = 0
    error_message: str | None = None


class SettleRecordsResponse(Response, key=10_021, versions="0", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    # In the order of the request.
    results: list[SettleResult]
