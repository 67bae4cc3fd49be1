"""ListConfigResources (key 74), v0-1: v0 asks for client metrics alone, v1 for the types that it names."""

from headwater.protocol.wire.codec import Request, Response, Struct, field, int8, int16, int32


class ListConfigResourcesRequest(Request, key=74, versions="0-1", flexible="0+"):
    resource_types: list[int8] = field(versions="1+")


class ConfigResource(Struct):
    resource_name: str
    resource_type: int8 = field(versions="1+", default=16)


class ListConfigResourcesResponse(Response, key=74, versions="0-1", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    config_resources: list[ConfigResource]
