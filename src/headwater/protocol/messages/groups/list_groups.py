"""ListGroups (key 16), v0-5: v3 is flexible, v4 filters by state, v5 by type."""

from headwater.protocol.wire.codec import Request, Response, Struct, field, int16, int32


class ListGroupsRequest(Request, key=16, versions="0-5", flexible="3+"):
    states_filter: list[str] = field(versions="4+")
    types_filter: list[str] = field(versions="5+")


class ListedGroup(Struct):
    group_id: str
    protocol_type: str
    group_state: str = field(versions="4+")
    group_type: str = field(versions="5+")


class ListGroupsResponse(Response, key=16, versions="0-5", flexible="3+"):
    throttle_time_ms: int32 = field(versions="1+")
    error_code: int16 = 0
    groups: list[ListedGroup]
