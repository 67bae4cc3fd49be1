"""DeleteGroups (key 42), v0-2: v2 is flexible."""

from headwater.protocol.wire.codec import Request, Response, Struct, int16, int32


class DeleteGroupsRequest(Request, key=42, versions="0-2", flexible="2+"):
    groups_names: list[str]


class DeletableGroupResult(Struct):
    group_id: str
    error_code: int16 = 0


class DeleteGroupsResponse(Response, key=42, versions="0-2", flexible="2+"):
    throttle_time_ms: int32 = 0
    results: list[DeletableGroupResult]
