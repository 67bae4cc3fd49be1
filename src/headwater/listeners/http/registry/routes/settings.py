"""Settings and modes: of all subjects of the default context, of another context, of one subject."""

from typing import Any, Final

import msgspec

from headwater.broker.audit.event import EventType
from headwater.coordination.schemas import refusals, subjects
from headwater.coordination.schemas.machine import SchemaMachine
from headwater.coordination.schemas.metadata import read_metadata, read_rule_set
from headwater.coordination.schemas.refusals import INVALID_LEVEL, INVALID_MODE, RegistryRefusal
from headwater.coordination.schemas.subjects import GLOBAL_CONTEXT
from headwater.coordination.schemas.terms import Mode, SubjectConfig
from headwater.listeners.http.registry import rights
from headwater.listeners.http.registry.answers import answer, config_body, config_echo
from headwater.listeners.http.registry.declaration import registry_operation
from headwater.listeners.http.request import Request
from headwater.listeners.http.response import Response
from headwater.registry.compatibility import Level
from headwater.registry.parsed import Policy
from headwater.security.acl import CLUSTER, Operation

_LEVELS: Final = "none, backward, forward, full, backward_transitive, forward_transitive, and full_transitive"
_MODES: Final = "READWRITE, READONLY, READONLY_OVERRIDE, and IMPORT"


class ConfigBody(msgspec.Struct, rename="camel"):
    """Settings. Those that are absent stay as they are, null removes one."""

    compatibility: str | msgspec.UnsetType | None = msgspec.UNSET
    # As answers name it.
    compatibility_level: str | msgspec.UnsetType | None = msgspec.UNSET
    compatibility_policy: str | msgspec.UnsetType | None = msgspec.UNSET
    compatibility_group: str | msgspec.UnsetType | None = msgspec.UNSET
    alias: str | msgspec.UnsetType | None = msgspec.UNSET
    normalize: bool | msgspec.UnsetType | None = msgspec.UNSET
    validate_fields: bool | msgspec.UnsetType | None = msgspec.UNSET
    validate_new_schemas: bool | msgspec.UnsetType | None = msgspec.UNSET
    validate_rules: bool | msgspec.UnsetType | None = msgspec.UNSET
    default_metadata: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET
    override_metadata: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET
    default_rule_set: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET
    override_rule_set: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET


class ModeBody(msgspec.Struct):
    """READWRITE, READONLY, READONLY_OVERRIDE or IMPORT."""

    mode: str


class SettingQuery(msgspec.Struct, rename="camel"):
    # Whether to tell the setting that holds, if there is none of the subject's own.
    default_to_global: bool = False


class ModeUpdate(msgspec.Struct):
    # Whether IMPORT may be set although there are schemas.
    force: bool = False


class ModeRemoval(msgspec.Struct):
    recursive: bool = False


def _scope(subject: str) -> str | None:
    """None for the default context, whose settings have no name."""
    return None if subjects.is_default_context(subject) else subjects.normalized(subject)


def _check(request: Request, operation: Operation, subject: str | None) -> None:
    if subject is None:
        request.guard.check(operation, CLUSTER)
    else:
        rights.check(request, operation, subject)


def _named(subject: str | None) -> str:
    return "the schema registry" if subject is None else f"subject '{subject}'"


# -- settings


async def _config(request: Request, subject: str | None, *, defaults: bool) -> Response:
    _check(request, Operation.DESCRIBE_CONFIGS, subject)

    def find(machine: SchemaMachine) -> SubjectConfig:
        state = machine.state
        own = state.configs.get(subject)
        is_global = subject is None or subjects.context_of(subject) == GLOBAL_CONTEXT
        if own is None and subject is not None and not defaults and not is_global:
            raise refusals.config_not_set(subject)
        if own is None or own.compatibility is None:
            return state.config_in_scope(subject)
        return own

    return answer(config_body(await request.broker.schemas.ask(find)))


async def _configure(request: Request, subject: str | None, body: ConfigBody) -> Response:
    _check(request, Operation.ALTER_CONFIGS, subject)
    update = _update_of(body)
    details = {name: str(value)[:200] for name, value in update.items()}
    with request.guard.change(EventType.SCHEMA_MODIFY, _named(subject), details):
        config = await request.broker.schemas.configure(subject, update)
    return answer(config_echo(config))


def _update_of(body: ConfigBody) -> dict[str, Any]:
    update: dict[str, Any] = {
        name: value for name, value in msgspec.structs.asdict(body).items() if value is not msgspec.UNSET
    }
    update = {field.encode_name: update[field.name] for field in msgspec.structs.fields(body) if field.name in update}
    if "compatibility" in update:
        update["compatibilityLevel"] = update.pop("compatibility")
    level, policy = update.get("compatibilityLevel"), update.get("compatibilityPolicy")
    if level is not None:
        update["compatibilityLevel"] = _member(Level, level, INVALID_LEVEL, "compatibility level", _LEVELS)
    if policy is not None:
        update["compatibilityPolicy"] = _member(
            Policy, policy, INVALID_LEVEL, "compatibility policy", "strict, lenient"
        )
    for name in ("defaultMetadata", "overrideMetadata"):
        if update.get(name) is not None:
            update[name] = read_metadata(update[name])
    for name in ("defaultRuleSet", "overrideRuleSet"):
        if update.get(name) is not None:
            update[name] = read_rule_set(update[name])
    return update


def _member(kind: Any, text: str, number: int, what: str, allowed: str) -> str:
    try:
        return kind(text.upper()).value
    except ValueError:
        raise RegistryRefusal(number, f"Invalid {what}. Valid values are {allowed}") from None


@registry_operation("GET", "/config")
async def get_config(request: Request) -> Response:
    """The settings of the default context. Needs DESCRIBE_CONFIGS on the cluster."""
    return await _config(request, None, defaults=True)


@registry_operation("PUT", "/config")
async def put_config(request: Request, body: ConfigBody) -> Response:
    """Change them. Needs ALTER_CONFIGS on the cluster."""
    return await _configure(request, None, body)


@registry_operation("DELETE", "/config")
async def delete_config(request: Request) -> Response:
    """Return to the defaults; gives what was set. Needs ALTER_CONFIGS on the cluster."""
    return await _remove_config(request, None)


@registry_operation("GET", "/config/{subject}")
async def get_subject_config(request: Request, subject: str, query: SettingQuery) -> Response:
    """The settings of a subject, or of a context. Needs DESCRIBE_CONFIGS on the topic."""
    return await _config(request, _scope(subject), defaults=query.default_to_global)


@registry_operation("PUT", "/config/{subject}")
async def put_subject_config(request: Request, subject: str, body: ConfigBody) -> Response:
    """Change them. Needs ALTER_CONFIGS on the topic."""
    return await _configure(request, _scope(subject), body)


@registry_operation("DELETE", "/config/{subject}")
async def delete_subject_config(request: Request, subject: str) -> Response:
    """Return to those of its context; gives what was set. Needs ALTER_CONFIGS on the topic."""
    return await _remove_config(request, _scope(subject))


async def _remove_config(request: Request, subject: str | None) -> Response:
    _check(request, Operation.ALTER_CONFIGS, subject)
    with request.guard.change(EventType.SCHEMA_MODIFY, _named(subject), {"removed": "config"}):
        return answer(config_body(await request.broker.schemas.remove_config(subject)))


# -- modes


async def _mode(request: Request, subject: str | None, *, defaults: bool) -> Response:
    _check(request, Operation.DESCRIBE_CONFIGS, subject)

    def find(machine: SchemaMachine) -> Mode:
        state = machine.state
        own = state.modes.get(subject)
        if own is None and subject is not None and not defaults:
            raise refusals.mode_not_set(subject)
        return state.mode_in_scope(subject) if own is None else own

    return answer({"mode": (await request.broker.schemas.ask(find)).value})


async def _set_mode(request: Request, subject: str | None, body: ModeBody, *, is_forced: bool) -> Response:
    _check(request, Operation.ALTER_CONFIGS, subject)
    try:
        mode = Mode(body.mode.upper())
    except ValueError:
        raise RegistryRefusal(INVALID_MODE, f"Invalid mode. Valid values are {_MODES}") from None
    with request.guard.change(EventType.SCHEMA_MODIFY, _named(subject), {"mode": mode.value}):
        await request.broker.schemas.set_mode(subject, mode, is_forced=is_forced)
    return answer({"mode": mode.value})


async def _remove_mode(request: Request, subject: str | None, *, is_recursive: bool) -> Response:
    _check(request, Operation.ALTER_CONFIGS, subject)
    with request.guard.change(EventType.SCHEMA_MODIFY, _named(subject), {"removed": "mode"}):
        mode = await request.broker.schemas.remove_mode(subject, is_recursive=is_recursive)
    return answer({"mode": None if mode is None else mode.value})


@registry_operation("GET", "/mode")
async def get_mode(request: Request) -> Response:
    """The mode of the default context. Needs DESCRIBE_CONFIGS on the cluster."""
    return await _mode(request, None, defaults=True)


@registry_operation("PUT", "/mode")
async def put_mode(request: Request, query: ModeUpdate, body: ModeBody) -> Response:
    """Change it. Needs ALTER_CONFIGS on the cluster."""
    return await _set_mode(request, None, body, is_forced=query.force)


@registry_operation("DELETE", "/mode")
async def delete_mode(request: Request, query: ModeRemoval) -> Response:
    """Return to READWRITE. Needs ALTER_CONFIGS on the cluster."""
    return await _remove_mode(request, None, is_recursive=query.recursive)


@registry_operation("GET", "/mode/{subject}")
async def get_subject_mode(request: Request, subject: str, query: SettingQuery) -> Response:
    """The mode of a subject, or of a context. Needs DESCRIBE_CONFIGS on the topic."""
    return await _mode(request, _scope(subject), defaults=query.default_to_global)


@registry_operation("PUT", "/mode/{subject}")
async def put_subject_mode(request: Request, subject: str, query: ModeUpdate, body: ModeBody) -> Response:
    """Change it. Needs ALTER_CONFIGS on the topic."""
    return await _set_mode(request, _scope(subject), body, is_forced=query.force)


@registry_operation("DELETE", "/mode/{subject}")
async def delete_subject_mode(request: Request, subject: str, query: ModeRemoval) -> Response:
    """Return to the mode of its context; gives what was set. Needs ALTER_CONFIGS on the topic."""
    return await _remove_mode(request, _scope(subject), is_recursive=query.recursive)


OPERATIONS = (
    get_config,
    put_config,
    delete_config,
    get_subject_config,
    put_subject_config,
    delete_subject_config,
    get_mode,
    put_mode,
    delete_mode,
    get_subject_mode,
    put_subject_mode,
    delete_subject_mode,
)
