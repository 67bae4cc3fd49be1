"""ListConfigResources (key 74), v0-1: the names of resources that have settings. A group is listed once it has settings
of its own. v0 asks for client metrics alone, v1 for the types that the request names."""

from headwater.broker.config_resources import ResourceType
from headwater.errors import ErrorCode
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.configs.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from headwater.security.acl import CLUSTER, Operation

REQUEST = ListConfigResourcesRequest


def handle(request: ListConfigResourcesRequest, context: Context) -> ListConfigResourcesResponse:
    denial = context.guard.denial(Operation.DESCRIBE_CONFIGS, CLUSTER)
    if denial is not None:
        return ListConfigResourcesResponse(error_code=denial.code, config_resources=[])
    # Version 0 knows only one type, which its request does not name.
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
