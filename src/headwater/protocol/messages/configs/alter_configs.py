"""AlterConfigs (key 33), v0-2: replaces all settings of a resource; v2 is flexible."""

from headwater.protocol.wire.codec import Request, Response, Struct, int8, int16, int32


class AlterableConfig(Struct):
    name: str
    value: str | None


class AlterConfigsResource(Struct):
    resource_type: int8
    resource_name: str
    configs: list[AlterableConfig]


class AlterConfigsRequest(Request, key=33, versions="0-2", flexible="2+"):
    resources: list[AlterConfigsResource]
    validate_only: bool = False


class AlterConfigsResourceResponse(Struct):
    error_code: int16 = 0
    error_message: str | None
    resource_type: int8
    resource_name: str


class AlterConfigsResponse(Response, key=33, versions="0-2", flexible="2+"):
    throttle_time_ms: int32 = 0
    responses: list[AlterConfigsResourceResponse]
