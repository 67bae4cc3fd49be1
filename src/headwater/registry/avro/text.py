"""An Avro schema as text: the canonical form, which Avro's Java library writes, and Confluent's normal form."""

from collections.abc import Mapping
from typing import Any, Final

import orjson

from headwater.registry.avro.types import AvroType, Field, Kind
from headwater.registry.errors import InvalidSchema

# Attributes of logical types that Avro itself reads; the normal form writes them in its own order.
_LOGICAL: Final = ("logicalType", "precision", "scale")


def canonical(root: AvroType, known: Mapping[str, AvroType]) -> str:
    """Types in `known` are written by their names alone: another document defines them."""
    return _Canonical(known).text(root)


def normal(root: AvroType, known: Mapping[str, AvroType]) -> str:
    """All names are full, properties are sorted, and what has no meaning is left out."""
    return _Normal(known).text(root)


def _json(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        raise InvalidSchema("a property or a default is nested too deeply") from None


class _Canonical:
    def __init__(self, known: Mapping[str, AvroType]) -> None:
        self._seen = set(known)

    def text(self, root: AvroType) -> str:
        parts: list[str] = []
        self._write(root, "", parts)
        return "".join(parts)

    def _write(self, each: AvroType, space: str, to: list[str]) -> None:
        kind = each.kind
        if kind is Kind.UNION:
            to.append("[")
            for number, branch in enumerate(each.branches):
                if number:
                    to.append(",")
                self._write(branch, space, to)
            to.append("]")
        elif kind.is_named:
            self._write_named(each, space, to)
        elif kind is Kind.ARRAY or kind is Kind.MAP:
            to.append('{"type":"array","items":' if kind is Kind.ARRAY else '{"type":"map","values":')
            self._write(each.element, space, to)
            _write_properties(each.properties, to)
            to.append("}")
        elif each.properties:
            to.append(f'{{"type":"{kind.value}"')
            _write_properties(each.properties, to)
            to.append("}")
        else:
            to.append(f'"{kind.value}"')

    def _write_named(self, each: AvroType, space: str, to: list[str]) -> None:
        inner = each.namespace
        if each.name in self._seen:
            to.append(_json(each.simple_name if inner == space else each.name))
            return
        self._seen.add(each.name)
        to.append(f'{{"type":"{"error" if each.is_error else each.kind.value}","name":{_json(each.simple_name)}')
        if inner != space:
            to.append(f',"namespace":{_json(inner)}')
        if each.doc is not None:
            to.append(f',"doc":{_json(each.doc)}')
        if each.kind is Kind.RECORD:
            to.append(',"fields":[')
            for number, field in enumerate(each.fields):
                if number:
                    to.append(",")
                self._write_field(field, inner, to)
            to.append("]")
        elif each.kind is Kind.ENUM:
            to.append(f',"symbols":{_json(each.symbols)}')
            if each.default is not None:
                to.append(f',"default":{_json(each.default)}')
        else:
            to.append(f',"size":{each.size}')
        _write_properties(each.properties, to)
        if each.aliases:
            aliases = [
                alias.rpartition(".")[2] if alias.rpartition(".")[0] == inner else alias for alias in each.aliases
            ]
            to.append(f',"aliases":{_json(aliases)}')
        to.append("}")

    def _write_field(self, field: Field, space: str, to: list[str]) -> None:
        to.append(f'{{"name":{_json(field.name)},"type":')
        self._write(field.type, space, to)
        if field.doc is not None:
            to.append(f',"doc":{_json(field.doc)}')
        if field.has_default:
            to.append(f',"default":{_json(field.default)}')
        if field.order != "ascending":
            to.append(f',"order":"{field.order}"')
        if field.aliases:
            to.append(f',"aliases":{_json(field.aliases)}')
        _write_properties(field.properties, to)
        to.append("}")


class _Normal:
    def __init__(self, known: Mapping[str, AvroType]) -> None:
        self._seen = set(known)

    def text(self, root: AvroType) -> str:
        parts: list[str] = []
        self._write(root, parts)
        return "".join(parts)

    def _write(self, each: AvroType, to: list[str]) -> None:
        kind = each.kind
        if kind is Kind.UNION:
            to.append("[")
            for number, branch in enumerate(each.branches):
                if number:
                    to.append(",")
                self._write(branch, to)
            to.append("]")
            return
        if kind.is_named:
            self._write_named(each, to)
            return
        if kind is Kind.ARRAY or kind is Kind.MAP:
            to.append('{"type":"array","items":' if kind is Kind.ARRAY else '{"type":"map","values":')
            self._write(each.element, to)
        elif not each.properties:
            to.append(f'"{kind.value}"')
            return
        else:
            to.append(f'{{"type":"{kind.value}"')
        _write_normal_properties(each.properties, to)
        to.append("}")

    def _write_named(self, each: AvroType, to: list[str]) -> None:
        if each.name in self._seen:
            to.append(_json(each.name))
            return
        self._seen.add(each.name)
        to.append(f'{{"name":{_json(each.name)},"type":"{each.kind.value}"')
        if each.kind is Kind.RECORD:
            to.append(',"fields":[')
            for number, field in enumerate(each.fields):
                if number:
                    to.append(",")
                self._write_field(field, to)
            to.append("]")
        elif each.kind is Kind.ENUM:
            to.append(f',"symbols":{_json(each.symbols)}')
        else:
            to.append(f',"size":{each.size}')
        logical, rest = _split_logical(each.properties)
        _write_properties(logical, to)
        if each.doc:
            to.append(f',"doc":{_json(each.doc)}')
        if each.aliases:
            to.append(f',"aliases":{_json(sorted(each.aliases))}')
        if each.default is not None:
            to.append(f',"default":{_json(each.default)}')
        _write_properties(dict(sorted(rest.items())), to)
        to.append("}")

    def _write_field(self, field: Field, to: list[str]) -> None:
        to.append(f'{{"name":{_json(field.name)},"type":')
        self._write(field.type, to)
        if field.has_default:
            to.append(f',"default":{_json(field.default)}')
        if field.doc:
            to.append(f',"doc":{_json(field.doc)}')
        if field.aliases:
            to.append(f',"aliases":{_json(sorted(field.aliases))}')
        if field.order != "ascending":
            to.append(f',"order":"{field.order}"')
        _write_properties(dict(sorted(field.properties.items())), to)
        to.append("}")


def _write_properties(properties: Mapping[str, Any], to: list[str]) -> None:
    for key, value in properties.items():
        to.append(f",{_json(key)}:{_json(value)}")


def _write_normal_properties(properties: Mapping[str, Any], to: list[str]) -> None:
    logical, rest = _split_logical(properties)
    _write_properties(logical, to)
    _write_properties(dict(sorted(rest.items())), to)


def _split_logical(properties: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    if "logicalType" not in properties:
        return {}, dict(properties)
    logical = {key: properties[key] for key in _LOGICAL if key in properties}
    if logical.get("scale") == 0:
        del logical["scale"]
    return logical, {key: value for key, value in properties.items() if key not in _LOGICAL}
