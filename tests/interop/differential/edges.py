"""From one valid request many others: each has one field changed to a value at the edge of what is possible, or beyond.

What there is to change is read from the declaration of the message.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from headwater.ids import NO_TOPIC_ID
from headwater.protocol.wire.codec import Request
from headwater.protocol.wire.schema import (
    BOOL,
    IDENTIFIER,
    RECORDS,
    TEXT,
    Array,
    Field,
    Kind,
    NestedStruct,
    PrefixedBytes,
    Scalar,
    Struct,
)
from tests.interop.differential.built import Values

UNKNOWN_ID = UUID(int=7)
_TEXTS = ("", "unknown", "not a name!")
_BYTES = (b"", b"garbage")


class Edge(NamedTuple):
    """The name says which field was changed to what."""

    name: str
    values: Values


def edges(request: type[Request], version: int, values: Values, skipped: frozenset[str]) -> Iterator[Edge]:
    """`skipped` are names of fields that stay as they are."""
    for path, value in _changes_of_struct(request, version, values, skipped):
        yield Edge(f"{_dotted(path)}={_shown(value)}", _changed(values, path, value))


_Path = tuple[str | int, ...]
_Change = tuple[_Path, Any]


def _changes_of_struct(
    declared: type[Struct], version: int, values: Values, skipped: frozenset[str]
) -> Iterator[_Change]:
    for field in declared.__fields__:
        if version in field.versions and field.name not in skipped:
            value = values.get(field.name, field.default)
            for path, changed in _changes(field, field.kind, version, value, skipped):
                yield (field.name, *path), changed


def _changes(field: Field, kind: Kind, version: int, value: Any, skipped: frozenset[str]) -> Iterator[_Change]:
    if value is not None and version in field.nullable:
        yield (), None
    match kind:
        case Array(element):
            yield from _changes_of_array(field, element, version, value, skipped)
        case NestedStruct(struct):
            if value is not None:
                # A default is no mapping, but a structure that has defaults alone.
                yield from _changes_of_struct(struct, version, value if isinstance(value, Mapping) else {}, skipped)
        case _:
            for changed in _values(kind):
                if changed != value:
                    yield (), changed


def _changes_of_array(
    field: Field, element: Kind, version: int, value: Any, skipped: frozenset[str]
) -> Iterator[_Change]:
    if value is None:
        return
    if value:
        yield (), []
        yield (), [*value, value[0]]
        for path, changed in _changes(field._replace(nullable=range(0)), element, version, value[0], skipped):
            yield (0, *path), changed


def _values(kind: Kind) -> tuple[Any, ...]:
    if kind is BOOL:
        return (True, False)
    if kind is IDENTIFIER:
        return (NO_TOPIC_ID, UNKNOWN_ID)
    if kind is TEXT:
        return _TEXTS
    if kind is RECORDS:
        return (None, *_BYTES)
    match kind:
        case Scalar(size=size):
            return (-2, -1, 0, 1, (1 << 8 * size - 1) - 1)
        case PrefixedBytes():
            return _BYTES
        case _:
            raise AssertionError(kind)


def _changed(values: Any, path: _Path, value: Any) -> Any:
    """A copy with one value changed."""
    if not path:
        return value
    first, *rest = path
    if isinstance(first, str):
        before = values if isinstance(values, Mapping) else {}
        return {**before, first: _changed(before.get(first), tuple(rest), value)}
    return [*values[:first], _changed(values[first], tuple(rest), value), *values[first + 1 :]]


def _dotted(path: _Path) -> str:
    return ".".join(str(part) for part in path if isinstance(part, str))


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return "nothing" if not value else "twice"
    return "null" if value is None else str(value) or "empty"
