"""IncrementalAlterConfigs (key 44), v0-1: changes single settings of a resource: set, unset, append to or subtract from
a list. v1 is flexible."""

from headwater.broker.config_resources import Edit
from headwater.errors import HeadwaterError
from headwater.listeners.kafka.context import Context
from headwater.listeners.kafka.named_resources import change_of, check_named_once, once_each, protected
from headwater.protocol.messages.configs.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from headwater.security.acl import Operation

REQUEST = IncrementalAlterConfigsRequest


async def handle(request: IncrementalAlterConfigsRequest, context: Context) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[
            await _alter(resource, times_named, context, validate_only=request.validate_only)
            async for resource, times_named in once_each(request.resources)
        ]
    )


async def _alter(
    resource: AlterConfigsResource, times_named: int, context: Context, *, validate_only: bool
) -> AlterConfigsResourceResponse:
    resource_type, name = resource.resource_type, resource.resource_name
    try:
        check_named_once(resource, times_named)
        context.guard.check(Operation.ALTER_CONFIGS, protected(resource))
        edits = [Edit(config.name, config.config_operation, config.value) for config in resource.configs]
        with change_of(
            resource, context.guard, [config.name for config in resource.configs], validate_only=validate_only
        ):
            await context.broker.configs.edit(resource_type, name, edits, validate_only=validate_only)
    except HeadwaterError as error:
        return AlterConfigsResourceResponse(
            error_code=error.code, error_message=str(error), resource_type=resource_type, resource_name=name
        )
    return AlterConfigsResourceResponse(error_message=None, resource_type=resource_type, resource_name=name)
