"""DescribeConfigs (key 32), v1-4: the settings in effect for a resource, and where each value comes from.

v3 adds types and documentation, v4 is flexible."""

from headwater.config.declaration import ConfigEntry
from headwater.errors import HeadwaterError
from headwater.listeners.kafka.context import Context
from headwater.listeners.kafka.named_resources import once_each, protected
from headwater.protocol.messages.configs.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from headwater.security.acl import Operation

REQUEST = DescribeConfigsRequest


async def handle(request: DescribeConfigsRequest, context: Context) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[_describe(resource, request, context) async for resource, _ in once_each(request.resources)]
    )


def _describe(
    resource: DescribeConfigsResource, request: DescribeConfigsRequest, context: Context
) -> DescribeConfigsResult:
    try:
        context.guard.check(Operation.DESCRIBE_CONFIGS, protected(resource))
        entries = context.broker.configs.describe(resource.resource_type, resource.resource_name)
    except HeadwaterError as error:
        return DescribeConfigsResult(
            error_code=error.code,
            error_message=str(error),
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=[],
        )
    wanted = resource.configuration_keys
    return DescribeConfigsResult(
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[_result(entry, request) for entry in entries if not wanted or entry.name in wanted],
    )


def _result(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in entry.synonyms
        ]
        if request.include_synonyms
        else [],
        config_type=entry.type,
        documentation=entry.documentation if request.include_documentation else None,
    )
