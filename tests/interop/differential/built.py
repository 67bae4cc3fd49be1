"""Requests from plain values: what is left out has its default, or is empty where the declaration has none."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from headwater.protocol.wire.codec import Request
from headwater.protocol.wire.schema import Array, Kind, NestedStruct, Struct

# Field names and their values: structures are mappings, too.
Values: TypeAlias = Mapping[str, Any]


def built(request: type[Request], values: Values) -> Any:
    return _struct(request, values)


def _struct(declared: type[Struct], values: Values) -> Any:
    unknown = values.keys() - {field.name for field in declared.__fields__}
    assert not unknown, f"{declared.__name__} has no {unknown}"
    return declared(
        **{
            field.name: _value(field.kind, values[field.name]) if field.name in values else field.default
            for field in declared.__fields__
        }
    )


def _value(kind: Kind, value: Any) -> Any:
    match kind:
        case Array(element) if value is not None:
            return [_value(element, each) for each in value]
        case NestedStruct(struct) if value is not None:
            return _struct(struct, value)
        case _:
            return value
