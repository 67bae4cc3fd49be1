"""LeaveGroup (key 13), v0-5: v3 lets many leave at once, v4 is flexible, v5 adds the reason."""

from headwater.protocol.wire.codec import Request, Response, Struct, field, int16, int32


class MemberIdentity(Struct):
    member_id: str = field(versions="3+")
    group_instance_id: str | None = field(versions="3+")
    reason: str | None = field(versions="5+")


class LeaveGroupRequest(Request, key=13, versions="0-5", flexible="4+"):
    group_id: str
    member_id: str = field(versions="0-2")
    members: list[MemberIdentity] = field(versions="3+")


class MemberResponse(Struct):
    member_id: str = field(versions="3+")
    group_instance_id: str | None = field(versions="3+")
    error_code: int16 = field(versions="3+")


class LeaveGroupResponse(Response, key=13, versions="0-5", flexible="4+"):
    throttle_time_ms: int32 = field(versions="1+")
    error_code: int16 = 0
    members: list[MemberResponse] = field(versions="3+")
