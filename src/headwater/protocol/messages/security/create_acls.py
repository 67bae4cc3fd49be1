"""CreateAcls (key 30), v1-3: v2 is flexible, v3 adds resources of the type user."""

from headwater.protocol.wire.codec import Request, Response, Struct, int8, int16, int32


class AclCreation(Struct):
    resource_type: int8
    resource_name: str
    resource_pattern_type: int8 = 3
    principal: str
    host: str
    operation: int8
    permission_type: int8


class CreateAclsRequest(Request, key=30, versions="1-3", flexible="2+"):
    creations: list[AclCreation]


class AclCreationResult(Struct):
    error_code: int16 = 0
    error_message: str | None = None


class CreateAclsResponse(Response, key=30, versions="1-3", flexible="2+"):
    throttle_time_ms: int32 = 0
    results: list[AclCreationResult]
