"""DescribeConfigs (key 32), v1-4: v3 adds types and documentation, v4 is flexible."""

from headwater.protocol.wire.codec import Request, Response, Struct, field, int8, int16, int32


class DescribeConfigsResource(Struct):
    resource_type: int8
    resource_name: str
    configuration_keys: list[str] | None


class DescribeConfigsRequest(Request, key=32, versions="1-4", flexible="4+"):
    resources: list[DescribeConfigsResource]
    include_synonyms: bool = False
    include_documentation: bool = field(versions="3+")


class DescribeConfigsSynonym(Struct):
    name: str
    value: str | None
    source: int8


class DescribeConfigsResourceResult(Struct):
    name: str
    value: str | None
    read_only: bool
    config_source: int8 = -1
    is_sensitive: bool
    synonyms: list[DescribeConfigsSynonym] = field()
    config_type: int8 = field(versions="3+")
    documentation: str | None = field(versions="3+", default="")


class DescribeConfigsResult(Struct):
    error_code: int16 = 0
    error_message: str | None
    resource_type: int8
    resource_name: str
    configs: list[DescribeConfigsResourceResult] = field()


class DescribeConfigsResponse(Response, key=32, versions="1-4", flexible="4+"):
    throttle_time_ms: int32 = 0
    results: list[DescribeConfigsResult]
