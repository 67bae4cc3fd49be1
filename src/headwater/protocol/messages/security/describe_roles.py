"""DescribeRoles (key 10002), v0: an API of Headwater's own: all roles and to whom they are granted. Resource types,
operations and pattern types have Kafka's numbers."""

from headwater.protocol.wire.codec import Request, Response, Struct, int8, int16, int32


class DescribeRolesRequest(Request, key=10_002, versions="0", flexible="0+"):
    pass


class RolePermission(Struct):
    resource_type: int8
    operations: list[int8]


class DescribedRole(Struct):
    name: str
    # Every broker has it, and it cannot be deleted.
    is_ready: bool
    permissions: list[RolePermission]


class Grant(Struct):
    role: str
    principal: str
    # 1, any: every type that the role is about.
    resource_type: int8
    resource_name: str
    pattern_type: int8


class DescribeRolesResponse(Response, key=10_002, versions="0", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    roles: list[DescribedRole]
    grants: list[Grant]
