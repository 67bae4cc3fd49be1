"""ListConfigResources (key 74): the names of what has settings. A group is listed once it has settings of its own."""

from headwater.broker.config_resources import ResourceType
from headwater.errors import ErrorCode
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.configs.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

REQUEST = ListConfigResourcesRequest


def handle(request: ListConfigResourcesRequest, context: Context) -> ListConfigResourcesResponse:
    # The first version knows but one type, and does not say so.
    served = frozenset(ResourceType) if context.api_version else frozenset({ResourceType.CLIENT_METRICS})
    wanted = frozenset(request.resource_types) or served
    if not wanted <= served:
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, config_resources=[])
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=resource_type)
            for resource_type in sorted(wanted)
            for name in context.broker.configs.names(resource_type)
        ]
    )
