"""AlterRoles (key 10003), v0: an API of Headwater's own: creates and deletes roles, grants and revokes them.

The changes are made in this order, each by itself, and answered in this order."""

from headwater.protocol.messages.security.describe_roles import Grant, RolePermission
from headwater.protocol.wire.codec import Request, Response, Struct, int16, int32


class RoleCreation(Struct):
    name: str
    permissions: list[RolePermission]


class AlterRolesRequest(Request, key=10_003, versions="0", flexible="0+"):
    creations: list[RoleCreation]
    grants: list[Grant]
    revocations: list[Grant]
    deletions: list[str]


class AlterRolesResult(Struct):
    error_code: int16 = 0
    error_message: str | None = None


class AlterRolesResponse(Response, key=10_003, versions="0", flexible="0+"):
    throttle_time_ms: int32 = 0
    creations: list[AlterRolesResult]
    grants: list[AlterRolesResult]
    revocations: list[AlterRolesResult]
    deletions: list[AlterRolesResult]
