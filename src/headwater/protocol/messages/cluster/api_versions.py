"""ApiVersions (key 18), v0-4: v3 is flexible and adds features. A broker answers an unknown version with v0."""

from headwater.protocol.wire.codec import Request, Response, Struct, field, int16, int32, int64


class ApiVersionsRequest(Request, key=18, versions="0-4", flexible="3+"):
    client_software_name: str = field(versions="3+")
    client_software_version: str = field(versions="3+")


class ApiVersion(Struct):
    api_key: int16
    min_version: int16
    max_version: int16


class SupportedFeatureKey(Struct):
    name: str
    min_version: int16
    max_version: int16


class FinalizedFeatureKey(Struct):
    name: str
    max_version_level: int16
    min_version_level: int16


class ApiVersionsResponse(Response, key=18, versions="0-4", flexible="3+"):
    error_code: int16 = 0
    api_keys: list[ApiVersion]
    throttle_time_ms: int32 = field(versions="1+")
    supported_features: list[SupportedFeatureKey] = field(versions="3+", tag=0)
    finalized_features_epoch: int64 = field(versions="3+", tag=1, default=-1)
    finalized_features: list[FinalizedFeatureKey] = field(versions="3+", tag=2)
    zk_migration_ready: bool = field(versions="3+", tag=3)
