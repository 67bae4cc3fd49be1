"""IncrementalAlterConfigs (key 44): sets, unsets, and adds to or takes from lists, one setting at a time."""

from collections import Counter
from collections.abc import Mapping
from enum import IntEnum

from headwater.config.declaration import SettingType
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.listeners.kafka.config_resources import (
    change_overrides,
    check_named_once,
    current_overrides,
    declared_setting,
    describe,
    once_each,
)
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.configs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

REQUEST = IncrementalAlterConfigsRequest


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


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
        current_overrides(context.broker, resource_type, name)
        repeated = [key for key, times in Counter(config.name for config in resource.configs).items() if times > 1]
        if repeated:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"{repeated[0]} is changed twice in the request")

        def change(before: Mapping[str, str]) -> Mapping[str, str]:
            overrides = dict(before)
            in_effect = {entry.name: entry.value for entry in describe(context.broker, resource_type, before)}
            for config in resource.configs:
                _change(overrides, config, resource_type, in_effect)
            return overrides

        await change_overrides(context.broker, resource_type, name, change, validate_only=validate_only)
    except HeadwaterError as error:
        return AlterConfigsResourceResponse(
            error_code=error.code, error_message=str(error), resource_type=resource_type, resource_name=name
        )
    return AlterConfigsResourceResponse(error_message=None, resource_type=resource_type, resource_name=name)


def _change(
    overrides: dict[str, str], config: AlterableConfig, resource_type: int, in_effect: Mapping[str, str | None]
) -> None:
    setting = declared_setting(resource_type, config.name)
    if config.config_operation == Operation.DELETE:
        overrides.pop(config.name, None)
        return
    if config.value is None:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"{config.name} has no value")
    if config.config_operation == Operation.SET:
        overrides[config.name] = config.value
        return
    if config.config_operation not in (Operation.APPEND, Operation.SUBTRACT):
        raise Refusal(ErrorCode.INVALID_REQUEST, f"operation {config.config_operation} does not exist")
    if setting.type is not SettingType.LIST:
        raise Refusal(ErrorCode.INVALID_CONFIG, f"{config.name} is not a list: nothing is added to or taken from it")
    before = [item for item in (in_effect.get(config.name) or "").split(",") if item]
    items = [item.strip() for item in config.value.split(",") if item.strip()]
    if config.config_operation == Operation.APPEND:
        after = before + [item for item in items if item not in before]
    else:
        after = [item for item in before if item not in items]
    overrides[config.name] = ",".join(after)
