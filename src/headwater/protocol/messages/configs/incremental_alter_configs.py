"""IncrementalAlterConfigs (key 44), v0-1: changes single settings of a resource; v1 is flexible."""

from headwater.protocol.wire.codec import Request, Response, Struct, int8, int16, int32


class AlterableConfig(Struct):
    name: str
    config_operation: int8
    value: str | None


class AlterConfigsResource(Struct):
    resource_type: int8
    resource_name: str
    configs: list[AlterableConfig]


class IncrementalAlterConfigsRequest(Request, key=44, versions="0-1", flexible="1+"):
    resources: list[AlterConfigsResource]
    validate_only: bool = False


class AlterConfigsResourceResponse(Struct):
    error_code: int16 = 0
    error_message: str | None
    resource_type: int8
    resource_name: str


class IncrementalAlterConfigsResponse(Response, key=44, versions="0-1", flexible="1+"):
    throttle_time_ms: int32 = 0
    responses: list[AlterConfigsResourceResponse]
