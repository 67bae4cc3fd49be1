"""DescribeGroups (key 15), v0-6: v4 adds static members, v5 is flexible, v6 says which group does not exist."""

from headwater.protocol.wire.codec import Request, Response, Struct, field, int16, int32

# In place of a bit field of allowed operations: the client did not ask for them.
NO_AUTHORIZED_OPERATIONS = -(2**31)


class DescribeGroupsRequest(Request, key=15, versions="0-6", flexible="5+"):
    groups: list[str]
    include_authorized_operations: bool = field(versions="3+")


class DescribedGroupMember(Struct):
    member_id: str
    group_instance_id: str | None = field(versions="4+")
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes


class DescribedGroup(Struct):
    error_code: int16 = 0
    error_message: str | None = field(versions="6+")
    group_id: str
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: list[DescribedGroupMember] = field()
    authorized_operations: int32 = field(versions="3+", default=NO_AUTHORIZED_OPERATIONS)


class DescribeGroupsResponse(Response, key=15, versions="0-6", flexible="5+"):
    throttle_time_ms: int32 = field(versions="1+")
    groups: list[DescribedGroup]
