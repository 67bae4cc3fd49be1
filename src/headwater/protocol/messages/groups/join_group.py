"""JoinGroup (key 11), v0-9: v5 adds static members, v6 is flexible, v7 names the protocol type, v9 skips assigning."""

from headwater.protocol.wire.codec import Request, Response, Struct, field, int16, int32


class JoinGroupRequestProtocol(Struct):
    name: str
    metadata: bytes


class JoinGroupRequest(Request, key=11, versions="0-9", flexible="6+"):
    group_id: str
    session_timeout_ms: int32
    rebalance_timeout_ms: int32 = field(versions="1+", default=-1)
    member_id: str
    group_instance_id: str | None = field(versions="5+")
    protocol_type: str
    protocols: list[JoinGroupRequestProtocol]
    reason: str | None = field(versions="8+")


class JoinGroupResponseMember(Struct):
    member_id: str
    group_instance_id: str | None = field(versions="5+")
    metadata: bytes


class JoinGroupResponse(Response, key=11, versions="0-9", flexible="6+"):
    throttle_time_ms: int32 = field(versions="2+")
    error_code: int16 = 0
    generation_id: int32 = -1
    protocol_type: str | None = field(versions="7+")
    # Not null before version 7, where a response without a protocol has "".
    protocol_name: str | None = field(nullable="7+", default="")
    leader: str = ""
    skip_assignment: bool = field(versions="9+", default=False)
    member_id: str
    members: list[JoinGroupResponseMember] = field()
