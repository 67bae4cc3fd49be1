"""DeleteAcls (key 31), v1-3: v2 is flexible, v3 adds resources of the type user."""

from headwater.protocol.wire.codec import Request, Response, Struct, int8, int16, int32


class DeleteAclsFilter(Struct):
    resource_type_filter: int8
    resource_name_filter: str | None
    pattern_type_filter: int8 = 3
    principal_filter: str | None
    host_filter: str | None
    operation: int8
    permission_type: int8


class DeleteAclsRequest(Request, key=31, versions="1-3", flexible="2+"):
    filters: list[DeleteAclsFilter]


class DeleteAclsMatchingAcl(Struct):
    error_code: int16 = 0
    error_message: str | None = None
    resource_type: int8
    resource_name: str
    pattern_type: int8 = 3
    principal: str
    host: str
    operation: int8
    permission_type: int8


class DeleteAclsFilterResult(Struct):
    error_code: int16 = 0
    error_message: str | None = None
    matching_acls: list[DeleteAclsMatchingAcl]


class DeleteAclsResponse(Response, key=31, versions="1-3", flexible="2+"):
    throttle_time_ms: int32 = 0
    filter_results: list[DeleteAclsFilterResult]
