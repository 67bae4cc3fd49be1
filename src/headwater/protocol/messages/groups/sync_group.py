"""SyncGroup (key 14), v0-5: v3 adds static members, v4 is flexible, v5 names the protocol that the client expects."""

from headwater.protocol.wire.codec import Request, Response, Struct, field, int16, int32


class SyncGroupRequestAssignment(Struct):
    member_id: str
    assignment: bytes


class SyncGroupRequest(Request, key=14, versions="0-5", flexible="4+"):
    group_id: str
    generation_id: int32
    member_id: str
    group_instance_id: str | None = field(versions="3+")
    protocol_type: str | None = field(versions="5+")
    protocol_name: str | None = field(versions="5+")
    assignments: list[SyncGroupRequestAssignment]


class SyncGroupResponse(Response, key=14, versions="0-5", flexible="4+"):
    throttle_time_ms: int32 = field(versions="1+")
    error_code: int16 = 0
    protocol_type: str | None = field(versions="5+")
    protocol_name: str | None = field(versions="5+")
    assignment: bytes = b""
