"""DescribeAcls (key 29), v1-3: v2 is flexible, v3 adds resources of the type user."""

from headwater.protocol.wire.codec import Request, Response, Struct, int8, int16, int32


class DescribeAclsRequest(Request, key=29, versions="1-3", flexible="2+"):
    resource_type_filter: int8
    resource_name_filter: str | None
    pattern_type_filter: int8 = 3
    principal_filter: str | None
    host_filter: str | None
    operation: int8
    permission_type: int8


class AclDescription(Struct):
    principal: str
    host: str
    operation: int8
    permission_type: int8


class DescribeAclsResource(Struct):
    resource_type: int8
    resource_name: str
    pattern_type: int8 = 3
    acls: list[AclDescription]


class DescribeAclsResponse(Response, key=29, versions="1-3", flexible="2+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    resources: list[DescribeAclsResource]
