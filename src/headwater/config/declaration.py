"""How a setting is declared: Kafka's name, type, default, bounds, one sentence of documentation.

A settings class derives from `Settings`, and `setting` makes its fields. Attribute, parser, environment variable,
DescribeConfigs entry and line in the reference all derive from that one declaration.
"""

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from functools import cache
from typing import Any, ClassVar, NamedTuple, TypeVar, dataclass_transform

from headwater.errors import ConfigError

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
VALUE_LENGTH_MAX = 65_536

# Only Java's number syntax: Python's own also accepts underscores, "nan" and digits of other scripts.
_INTEGER = r"[+-]?[0-9]{1,19}"
_DECIMAL = r"[+-]?([0-9]{1,19}(\.[0-9]{0,19})?|\.[0-9]{1,19})([eE][+-]?[0-9]{1,3})?"

_MILLISECONDS_IN = {"minutes": 60_000, "hours": 3_600_000}

Value = bool | int | float | str | frozenset[str] | tuple[str, ...] | None
Declared = TypeVar("Declared", bound=Value)


class SettingType(IntEnum):
    """Kafka's types of settings, by their codes in DescribeConfigs. INT has 32 bits, LONG 64."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


BOOLEAN, STRING, INT = SettingType.BOOLEAN, SettingType.STRING, SettingType.INT
LONG, DOUBLE, LIST = SettingType.LONG, SettingType.DOUBLE, SettingType.LIST


class ConfigSource(IntEnum):
    """Where a value came from, by Kafka's codes in DescribeConfigs."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_GROUP = 8


class ConfigSynonym(NamedTuple):
    """One of the places where a value is looked up."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """A setting as DescribeConfigs shows it. `value` is None if it is unset or sensitive."""

    name: str
    value: str | None
    source: ConfigSource
    default: bool
    read_only: bool
    sensitive: bool
    type: SettingType
    documentation: str
    synonyms: tuple[ConfigSynonym, ...]


class Setting(NamedTuple):
    name: str
    type: SettingType
    default: Value
    documentation: str
    minimum: float | None = None
    maximum: float | None = None
    # Values outside of the bounds with a meaning of their own, such as -1 for "no limit".
    also: tuple[int, ...] = ()
    allowed: tuple[str, ...] = ()
    pattern: str | None = None
    # Whether it may change while the broker runs, through the protocol or by a reload.
    dynamic: bool = False
    # Whether only a reload changes it: it names a file, and no client may choose one for the broker; or it is secret,
    # and the broker's data would hold in plain text what a client sets.
    reload_only: bool = False
    sensitive: bool = False
    # Whether `listener.name.<name>.` before its name sets it for one listener.
    per_listener: bool = False
    # Whether it is text of several lines, as PEM is.
    multiline: bool = False
    # The broker settings that a topic setting falls back to, strongest first.
    synonyms: tuple[str, ...] = ()
    # Raises ConfigError for text that does not follow the grammar of this setting.
    check: Callable[[str], object] | None = None

    @property
    def attribute(self) -> str:
        return attribute_of(self.name)

    @property
    def is_reloadable(self) -> bool:
        return self.dynamic or self.reload_only

    @property
    def variable(self) -> str:
        """The environment variable of the setting."""
        return "HEADWATER_" + self.name.removeprefix("headwater.").replace(".", "_").upper()

    @property
    def range(self) -> str:
        """The values that it accepts, as text for the reference and for refusals."""
        if self.allowed:
            listing = ", ".join(self.allowed)
            return f"any of {listing}" if self.type is SettingType.LIST else f"one of {listing}"
        also = "".join(f" or {value}" for value in self.also)
        minimum, maximum = self.minimum, self.maximum
        if minimum is not None and maximum is not None:
            return f"{minimum} to {maximum}{also}"
        return f"at least {minimum}{also}" if minimum is not None else ""

    def parse(self, text: str) -> Value:
        """The value of `text`; otherwise raises a ConfigError that names this setting."""
        text = text.strip()
        if len(text) > VALUE_LENGTH_MAX:
            raise self.refusal(f"{len(text)} characters, the limit is {VALUE_LENGTH_MAX}")
        if text and not (_in_one_line(text) if self.multiline else text).isprintable():
            raise self.refusal(f"{self._shown(text)} holds a character that cannot be printed")
        match self.type:
            case SettingType.BOOLEAN:
                value = {"true": True, "false": False}.get(text.lower())
                if value is None:
                    raise self.refusal(f"{self._shown(text)} is neither true nor false")
                return value
            case SettingType.INT | SettingType.LONG:
                if not re.fullmatch(_INTEGER, text):
                    raise self.refusal(f"{self._shown(text)} is not a whole number")
                return self._bounded(int(text), text)
            case SettingType.DOUBLE:
                if not re.fullmatch(_DECIMAL, text):
                    raise self.refusal(f"{self._shown(text)} is not a number")
                return self._bounded(float(text), text)
            case SettingType.STRING:
                return self._recognised(text)
            case SettingType.LIST:
                items = [self._recognised(item) for item in _items(text)]
                if "" in items:
                    raise self.refusal(f"{self._shown(text)} has an empty item")
                # The type of the default tells whether the order of the list matters.
                return tuple(dict.fromkeys(items)) if isinstance(self.default, tuple) else frozenset(items)

    def render(self, value: Value) -> str | None:
        """The text that `parse` turns back into `value`; None if the setting is unset."""
        match value:
            case None:
                return None
            case bool():
                return "true" if value else "false"
            case frozenset():
                return ",".join(sorted(value))
            case tuple():
                return ",".join(value)
            case _:
                return str(value)

    def normalize(self, text: str) -> str:
        """The same value in Kafka's spelling. A list keeps its order, so that tools which declare settings find them
        unchanged."""
        value = self.parse(text)
        return ",".join(_items(text)) if isinstance(value, frozenset) else str(self.render(value))

    def disclosed(self, value: Value) -> str | None:
        """The value as DescribeConfigs may show it: None if the setting is sensitive."""
        return None if self.sensitive else self.render(value)

    def entry(
        self, value: str | None, source: ConfigSource, synonyms: tuple[ConfigSynonym, ...], *, read_only: bool
    ) -> ConfigEntry:
        return ConfigEntry(
            name=self.name,
            value=value,
            source=source,
            default=source is ConfigSource.DEFAULT,
            read_only=read_only,
            sensitive=self.sensitive,
            type=self.type,
            documentation=self.documentation,
            synonyms=synonyms,
        )

    def refusal(self, problem: str) -> ConfigError:
        return ConfigError(f"{self.name}: {problem}")

    def _bounded(self, value: Any, text: str) -> Any:
        below = self.minimum is not None and value < self.minimum
        above = self.maximum is not None and value > self.maximum
        if (below or above) and value not in self.also:
            raise self.refusal(f"{text} is out of range ({self.range})")
        if self.type is SettingType.INT and not INT32_MIN <= value <= INT32_MAX:
            raise self.refusal(f"{text} does not fit in 32 bits")
        if self.type is SettingType.LONG and not INT64_MIN <= value <= INT64_MAX:
            raise self.refusal(f"{text} does not fit in 64 bits")
        return value

    def _shown(self, text: str) -> str:
        return "the value" if self.sensitive else _shown(text)

    def _recognised(self, text: str) -> str:
        if self.allowed and text not in self.allowed:
            raise self.refusal(f"{self._shown(text)} is not {self.range}{_hint(text, self.allowed)}")
        if self.pattern is not None and not re.fullmatch(self.pattern, text):
            raise self.refusal(f"{self._shown(text)} is not of the expected form")
        if self.check is not None:
            try:
                self.check(text)
            except ConfigError as error:
                raise self.refusal(str(error)) from None
        return text


class Settings:
    """Base of the classes that `settings_class` decorates; their objects never change. These methods loop over the
    fields: dataclasses would otherwise compile straight-line code for each of 170 settings in each of ten classes,
    which takes ten milliseconds of every start."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    def __init__(self, **values: Any) -> None:
        for field in dataclasses.fields(self):
            if field.name in values:
                value = values.pop(field.name)
            elif field.default_factory is not dataclasses.MISSING:
                value = field.default_factory()
            else:
                value = field.default
            object.__setattr__(self, field.name, value)
        if values:
            raise TypeError(f"{type(self).__name__} has no {', '.join(values)}")

    def __setattr__(self, name: str, value: object) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._compared() == other._compared()

    def __hash__(self) -> int:
        return hash(self._compared())

    def __repr__(self) -> str:
        shown = (field.name for field in dataclasses.fields(self) if field.repr)
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    def _compared(self) -> tuple[object, ...]:
        return tuple(getattr(self, field.name) for field in dataclasses.fields(self) if field.compare)


Declaring = TypeVar("Declaring", bound=type[Settings])


def derived() -> Any:
    """A field that is computed from settings: the constructor of its class sets it after them."""
    return dataclasses.field(init=False, repr=False, compare=False, default=None)


@dataclass_transform(kw_only_default=True, frozen_default=True)
def settings_class(declaring: Declaring) -> Declaring:
    decorate = dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
    return decorate(declaring)


@cache
def attribute_of(name: str) -> str:
    return name.replace(".", "_")


@cache
def settings_of(declaring: type) -> Mapping[str, Setting]:
    """The settings that a class declares, by Kafka's name, in alphabetical order."""
    found: dict[str, Setting] = {}
    for field in dataclasses.fields(declaring):
        declared = field.metadata.get("setting")
        if isinstance(declared, Setting):
            assert field.name == declared.attribute, f"{field.name} declares {declared.name}"
            found[declared.name] = declared
    return dict(sorted(found.items()))


def find_setting(declaring: type, name: str, kind: str) -> Setting:
    """The setting of that name; refuses an unknown name with the nearest known one. `kind` is what has the setting, for
    the message: "topic", "group" or "broker"."""
    settings = settings_of(declaring)
    found = settings.get(name)
    if found is None:
        raise ConfigError(f"unknown {kind} setting {_shown(name)}{_hint(name, settings)}")
    return found


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `name` was most likely meant to be."""
    # Late import: only a refusal needs it, and start-up time counts.
    from difflib import get_close_matches  # noqa: PLC0415

    # Longer text is no misspelling, and a client could make the broker spend much time on matching it.
    matches = get_close_matches(name, candidates, n=1) if len(name) <= 128 else []
    return matches[0] if matches else None


def in_milliseconds(name: str, value: Value) -> Value:
    """The value in milliseconds, if the setting's name ends in another unit (log.retention.hours)."""
    milliseconds = _MILLISECONDS_IN.get(name.rpartition(".")[2])
    return value * milliseconds if milliseconds and isinstance(value, int) and value > 0 else value


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",")] if text.strip() else []


def _in_one_line(text: str) -> str:
    return text.replace("\r\n", " ").replace("\n", " ")


def _shown(text: str) -> str:
    """Text from outside, quoted and short enough for one line of a log."""
    return repr(text) if len(text) <= 80 else f"{text[:77]!r}..."


def _hint(name: str, candidates: Iterable[str]) -> str:
    meant = nearest(name, candidates)
    return f"; did you mean {meant!r}?" if meant else ""


def setting(
    value_type: SettingType,
    name: str,
    default: Declared,
    documentation: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    also: tuple[int, ...] = (),
    allowed: tuple[str, ...] = (),
    pattern: str | None = None,
    dynamic: bool = False,
    reload_only: bool = False,
    sensitive: bool = False,
    per_listener: bool = False,
    multiline: bool = False,
    check: Callable[[str], object] | None = None,
) -> Declared:
    """Declare a field of a settings class. The return type is the default's, so that type checkers know the attribute's
    type."""
    declared = Setting(
        name,
        value_type,
        default,
        documentation,
        minimum,
        maximum,
        also,
        allowed,
        pattern,
        dynamic,
        reload_only,
        sensitive,
        per_listener,
        multiline,
        check=check,
    )
    return declare(declared)


def declare(setting: Setting) -> Any:
    return dataclasses.field(default=setting.default, metadata={"setting": setting}, repr=not setting.sensitive)
