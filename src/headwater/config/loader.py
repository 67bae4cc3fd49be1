"""Loads the broker's settings: the command line over the environment over a TOML file over defaults.

A setting that is unknown or out of range is refused with its source and the name that was probably meant.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from headwater.config.broker import BrokerConfig
from headwater.config.declaration import nearest, settings_of
from headwater.config.listener_overrides import find_overridable, name_of_variable
from headwater.errors import ConfigError
from headwater.printable import printable

FILE_NAME = "headwater.toml"
FILE_VARIABLE = "HEADWATER_CONFIG"
DEFAULT = "default"

_PREFIX = "HEADWATER_"
_FILE_BYTES_MAX = 1_048_576
# Variables that are not settings of a broker: the one above, and those of client commands.
_OTHER_VARIABLES = frozenset({FILE_VARIABLE, "HEADWATER_BOOTSTRAP", "HEADWATER_CLIENT_CONFIG", "HEADWATER_CLIENT_SET"})


class Effective(NamedTuple):
    """The settings in effect, and the source of each value."""

    config: BrokerConfig
    sources: Mapping[str, str]


def find_file(chosen: Path | None, environment: Mapping[str, str]) -> Path | None:
    """The file to load: the chosen one, else the environment's, else the one in the working directory if it exists."""
    if chosen is not None:
        return chosen
    named = environment.get(FILE_VARIABLE)
    if named:
        return Path(named)
    beside = Path(FILE_NAME)
    return beside if beside.is_file() else None


def load(flags: Mapping[str, str], environment: Mapping[str, str], file: Path | None) -> Effective:
    values: dict[str, str] = {}
    sources = dict.fromkeys(settings_of(BrokerConfig), DEFAULT)
    for name, text, source in (*_from_file(file), *_from_environment(environment), *_from_flags(flags)):
        try:
            declared = find_overridable(BrokerConfig, name, "broker")
            declared.parse(text)
        except ConfigError as error:
            raise ConfigError(f"{source}: {error}") from None
        values[declared.name] = text
        sources[declared.name] = source
    return Effective(BrokerConfig.from_values(values), sources)


def _from_flags(flags: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    for name, text in flags.items():
        yield name, text, "command line"


def _from_environment(environment: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    names = {declared.variable: name for name, declared in settings_of(BrokerConfig).items()}
    for variable, text in environment.items():
        if not variable.startswith(_PREFIX) or variable in _OTHER_VARIABLES:
            continue
        name = names.get(variable) or name_of_variable(BrokerConfig, variable.removeprefix(_PREFIX))
        if name is None:
            # Without the prefix that all of them share, which would make any two names similar.
            meant = nearest(variable.removeprefix(_PREFIX), [each.removeprefix(_PREFIX) for each in names])
            hint = f"; did you mean {_PREFIX}{meant}?" if meant else ""
            raise ConfigError(f"unknown environment variable {printable(variable)[:200]}{hint}")
        yield name, text, f"environment {variable}"


def _from_file(file: Path | None) -> Iterator[tuple[str, str, str]]:
    if file is None:
        return
    seen: set[str] = set()
    for name, value in _flattened(_read_toml(file), ""):
        if name in seen:
            raise ConfigError(f"{file}: {name} is set twice")
        seen.add(name)
        yield name, _text_of(file, name, value), f"file {file}"


def _read_toml(file: Path) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415  late import: only a broker that has a file needs the parser

    try:
        with file.open("rb") as stream:
            content = stream.read(_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from None
    if len(content) > _FILE_BYTES_MAX:
        raise ConfigError(f"{file}: more than {_FILE_BYTES_MAX} bytes")
    try:
        return tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        # headwater.flush and headwater.flush.interval.ms are both settings, which bare dotted keys cannot express.
        raise ConfigError(f"{file}: not TOML: {error} (names with dots can be quoted)") from None


def _flattened(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, object]]:
    """Every value with its dotted name, whether the dots come from nested tables or from a quoted key."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flattened(cast("dict[str, Any]", value), f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _text_of(file: Path, name: str, value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str() | int() | float():
            return str(value)
        case list():
            return ",".join(_text_of(file, name, item) for item in cast("list[object]", value))
        case _:
            raise ConfigError(f"file {file}: {name}: a {type(value).__name__} is not a value that a setting can have")
