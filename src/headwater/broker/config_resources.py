"""The resources that have settings (topics, groups, brokers): how every listener reads and changes them."""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from headwater.broker.catalog.effective_config import Change, EffectiveConfig
from headwater.broker.ports.leadership import Leadership
from headwater.broker.ports.metadata import Metadata
from headwater.config import broker as broker_config
from headwater.config import group, topic
from headwater.config.broker import BrokerConfig
from headwater.config.declaration import ConfigEntry, Setting, SettingType, find_setting
from headwater.config.group import GroupConfig
from headwater.config.listener_overrides import find_overridable
from headwater.config.topic import TopicConfig
from headwater.coordination.catalog.topic_names import SCHEMAS_TOPIC, check_topic_name, is_internal
from headwater.errors import ErrorCode, Refusal
from headwater.ids import GroupId


class ResourceType(IntEnum):
    """By Kafka's numbers. Loggers and client metrics have no settings here."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class EditOperation(IntEnum):
    """By Kafka's numbers. The last two are for settings that are lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Edit(NamedTuple):
    """One change of one setting."""

    name: str
    operation: int
    value: str | None


class ConfigResources:
    def __init__(self, metadata: Metadata, config: EffectiveConfig, leadership: Leadership) -> None:
        self._state = metadata.state
        self._config = config
        self._leadership = leadership

    def names(self, resource_type: int) -> Iterable[str]:
        """The resources of a type. A group is one of them once it has settings of its own."""
        match resource_type:
            case ResourceType.TOPIC:
                return self._state.by_name
            case ResourceType.BROKER:
                return (str(self._leadership.node_id),)
            case ResourceType.GROUP:
                return self._state.group_overrides
            case _:
                return ()

    def overrides(self, resource_type: int, name: str) -> Mapping[str, str]:
        """What was set for the resource itself. An unknown topic or broker is refused; a group need not exist."""
        state = self._state
        match resource_type:
            case ResourceType.TOPIC:
                check_topic_name(name)
                return state.existing(name).overrides
            case ResourceType.BROKER:
                self._check_broker(name)
                return state.broker_overrides if name else state.broker_defaults
            case ResourceType.GROUP:
                state.check_group_id(name)
                return state.group_overrides.get(GroupId(name), {})
            case _:
                known = next((each.name for each in ResourceType if each == resource_type), resource_type)
                raise Refusal(ErrorCode.INVALID_REQUEST, f"resources of type {known} have no settings here")

    def describe(self, resource_type: int, name: str) -> Sequence[ConfigEntry]:
        """The settings in effect for a resource; of the defaults of all brokers, those that are set."""
        overrides = self.overrides(resource_type, name)
        if resource_type == ResourceType.BROKER and not name:
            return broker_config.describe_defaults(overrides)
        return self.describe_overridden(resource_type, overrides)

    def describe_overridden(self, resource_type: int, overrides: Mapping[str, str]) -> Sequence[ConfigEntry]:
        """The settings in effect for a resource of that type which sets `overrides` itself."""
        config = self._config.live.current
        match resource_type:
            case ResourceType.TOPIC:
                return topic.describe(overrides, config)
            case ResourceType.GROUP:
                return group.describe(overrides, config)
            case _:
                return broker_config.describe(config)

    async def replace(
        self, resource_type: int, name: str, values: Mapping[str, str | None], *, validate_only: bool
    ) -> None:
        """Replace all that the resource sets itself by `values`."""
        self.overrides(resource_type, name)
        overrides = {key: _given(key, value) for key, value in values.items()}
        await self._change(resource_type, name, lambda _: overrides, validate_only=validate_only)

    async def edit(self, resource_type: int, name: str, edits: Sequence[Edit], *, validate_only: bool) -> None:
        """Change single settings of the resource; all of the edits are applied, or none is."""
        self.overrides(resource_type, name)
        edited: set[str] = set()
        for each in edits:
            if each.name in edited:
                raise Refusal(ErrorCode.INVALID_REQUEST, f"{each.name} is changed twice in the request")
            edited.add(each.name)

        def change(before: Mapping[str, str]) -> Mapping[str, str]:
            after = dict(before)
            in_effect = {entry.name: entry.value for entry in self.describe_overridden(resource_type, before)}
            for each in edits:
                _apply(each, _declaration(resource_type, each.name), after, in_effect)
            return after

        await self._change(resource_type, name, change, validate_only=validate_only)

    async def _change(self, resource_type: int, name: str, change: Change, *, validate_only: bool) -> None:
        match resource_type:
            case ResourceType.TOPIC:
                await self.change_topic(name, change, validate_only=validate_only)
            case ResourceType.GROUP:
                await self._config.change_group(GroupId(name), change, validate_only=validate_only)
            case _ if name:
                await self._config.change_broker(change, validate_only=validate_only)
            case _:
                await self._config.change_brokers(change, validate_only=validate_only)

    async def change_topic(self, name: str, change: Change, *, validate_only: bool = False) -> None:
        def checked(before: Mapping[str, str]) -> Mapping[str, str]:
            after = change(before)
            policy = before.get("cleanup.policy")
            is_fixed = is_internal(name) or (
                name == SCHEMAS_TOPIC and self._config.live.current.headwater_schemas_enable
            )
            if is_fixed and after.get("cleanup.policy") != policy:
                raise Refusal(
                    ErrorCode.INVALID_CONFIG, f"the cleanup.policy of '{name}' stays '{policy}': the topic is internal"
                )
            return after

        await self._config.change_topic(name, checked, validate_only=validate_only)

    def _check_broker(self, name: str) -> None:
        """The empty name stands for the defaults of all brokers."""
        node_id = self._leadership.node_id
        if name not in ("", str(node_id)):
            raise Refusal(ErrorCode.INVALID_REQUEST, f"broker '{name[:40]}' is not here, this is broker {node_id}")


def _declaration(resource_type: int, name: str) -> Setting:
    match resource_type:
        case ResourceType.TOPIC:
            return find_setting(TopicConfig, name, "topic")
        case ResourceType.GROUP:
            return find_setting(GroupConfig, name, "group")
        case _:
            return find_overridable(BrokerConfig, name, "broker")


def _given(name: str, value: str | None) -> str:
    if value is None:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"{name} has no value")
    return value


def _apply(edit: Edit, declared: Setting, overrides: dict[str, str], in_effect: Mapping[str, str | None]) -> None:
    name, operation, value = edit
    if operation == EditOperation.DELETE:
        overrides.pop(name, None)
        return
    text = _given(name, value)
    if operation == EditOperation.SET:
        overrides[name] = text
        return
    if operation not in (EditOperation.APPEND, EditOperation.SUBTRACT):
        raise Refusal(ErrorCode.INVALID_REQUEST, f"operation {operation} does not exist")
    if declared.type is not SettingType.LIST:
        raise Refusal(ErrorCode.INVALID_CONFIG, f"{name} is not a list: nothing is added to or taken from it")
    before = [item for item in (in_effect.get(name) or "").split(",") if item]
    items = [item.strip() for item in text.split(",") if item.strip()]
    if operation == EditOperation.APPEND:
        after = before + [item for item in items if item not in before]
    else:
        after = [item for item in before if item not in items]
    overrides[name] = ",".join(after)
