"""AlterConfigs (key 33), v0-2: replaces all settings of a resource; settings that it does not name fall back to their
defaults. v2 is flexible."""

from headwater.errors import HeadwaterError
from headwater.listeners.kafka.context import Context
from headwater.listeners.kafka.named_resources import (
    change_of,
    check_named_once,
    check_settings_named_once,
    once_each,
    protected,
)
from headwater.protocol.messages.configs.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from headwater.security.acl import Operation

REQUEST = AlterConfigsRequest


async def handle(request: AlterConfigsRequest, context: Context) -> AlterConfigsResponse:
    return AlterConfigsResponse(
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
        check_settings_named_once([config.name for config in resource.configs])
        context.guard.check(Operation.ALTER_CONFIGS, protected(resource))
        values = {config.name: config.value for config in resource.configs}
        with change_of(
            resource, context.guard, [config.name for config in resource.configs], validate_only=validate_only
        ):
            await context.broker.configs.replace(resource_type, name, values, validate_only=validate_only)
    except HeadwaterError as error:
        return AlterConfigsResourceResponse(
            error_code=error.code, error_message=str(error), resource_type=resource_type, resource_name=name
        )
    return AlterConfigsResourceResponse(error_message=None, resource_type=resource_type, resource_name=name)
