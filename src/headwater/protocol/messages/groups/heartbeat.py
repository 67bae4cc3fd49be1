"""Heartbeat (key 12), v0-4: v3 adds static members, v4 is flexible."""

from headwater.protocol.wire.codec import Request, Response, field, int16, int32


class HeartbeatRequest(Request, key=12, versions="0-4", flexible="4+"):
    group_id: str
    generation_id: int32
    member_id: str
    group_instance_id: str | None = field(versions="3+")


class HeartbeatResponse(Response, key=12, versions="0-4", flexible="4+"):
    throttle_time_ms: int32 = field(versions="1+")
    error_code: int16 = 0
