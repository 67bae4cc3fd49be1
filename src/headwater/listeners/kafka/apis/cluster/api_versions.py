"""ApiVersions (key 18), v0-4: the APIs that are served, in which versions, and the features of the cluster.

v3 is flexible, names the client's software and adds the finalized features, v4 the supported ones. A request in an
unknown version is answered in v0, so that the client learns which versions to use."""

import re
from functools import cache

from headwater.errors import ErrorCode
from headwater.listeners.kafka.api_table import advertised_apis
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.cluster.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

REQUEST = ApiVersionsRequest

FIRST_VERSION_WITH_SOFTWARE = 3
# Java clients 3.3 to 3.7 cannot decode a supported feature whose minimum level is 0, which is the minimum of all of
# ours. Like Kafka (KAFKA-17011, KAFKA-17492), leave them out below this version; clients act on the finalized levels.
FIRST_VERSION_WITH_SUPPORTED_FEATURES = 4
# Clients choose their protocols by these levels: the consumer protocol of groups (KIP-848), and the second protocol of
# transactions, in which every end raises the epoch (KIP-890).
FEATURES = (("group.version", 1), ("transaction.version", 2))
# Always the same, because features never change while a broker runs.
FEATURES_EPOCH = 0
# Kafka's rule for the client's software name and version, which end up in metrics and logs.
_SOFTWARE = r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?"


def handle(request: ApiVersionsRequest, context: Context) -> ApiVersionsResponse:
    if context.api_version >= FIRST_VERSION_WITH_SOFTWARE and not (
        re.fullmatch(_SOFTWARE, request.client_software_name)
        and re.fullmatch(_SOFTWARE, request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=[])
    return ApiVersionsResponse(
        api_keys=_served(),
        supported_features=_supported_features(context.api_version),
        finalized_features_epoch=FEATURES_EPOCH,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level) for name, level in FEATURES
        ],
    )


def _supported_features(api_version: int) -> list[SupportedFeatureKey]:
    if api_version < FIRST_VERSION_WITH_SUPPORTED_FEATURES:
        return []
    return [SupportedFeatureKey(name=name, min_version=0, max_version=level) for name, level in FEATURES]


def unsupported() -> ApiVersionsResponse:
    """The response to an unknown version: the client reads it in version 0 and sends a version that is served."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_served())


@cache
def _served() -> list[ApiVersion]:
    return [ApiVersion(api_key=key, min_version=first, max_version=last) for key, first, last in advertised_apis()]
