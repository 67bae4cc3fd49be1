"""Avro schemas: parsed and checked as Avro's own Java library does."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, cast

from headwater.registry.avro.types import AvroType, Field, Kind
from headwater.registry.errors import InvalidSchema
from headwater.registry.limits import Budget, Limits
from headwater.registry.parsed import Document, ParsedSchema, Policy, SchemaType, read_json

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PRIMITIVES: Final = {kind.value: kind for kind in Kind if kind.is_primitive}
_NAMED: Final = {"record": Kind.RECORD, "error": Kind.RECORD, "enum": Kind.ENUM, "fixed": Kind.FIXED}
# What a type consists of; everything else in its object is a property.
_RESERVED: Final = frozenset(
    {"aliases", "default", "doc", "fields", "items", "name", "namespace", "size", "symbols", "type", "values"}
)
_FIELD_RESERVED: Final = frozenset({"aliases", "default", "doc", "name", "order", "type"})
_ORDERS: Final = ("ascending", "descending", "ignore")
_FIXED_SIZE_MAX: Final = 2**31 - 1


class AvroSchema:
    """A schema with the named types that it refers to."""

    type: ClassVar = SchemaType.AVRO

    def __init__(self, root: AvroType, known: Mapping[str, AvroType], limits: Limits) -> None:
        self.root = root
        self._known = known
        self._limits = limits
        self._canonical: str | None = None

    @property
    def canonical(self) -> str:
        if self._canonical is None:
            from headwater.registry.avro import text  # noqa: PLC0415

            self._canonical = text.canonical(self.root, self._known)
        return self._canonical

    @property
    def name(self) -> str:
        return self.root.name or self.root.kind.value

    def normalized(self) -> "AvroSchema":
        from headwater.registry.avro import text  # noqa: PLC0415

        normal = AvroSchema(self.root, self._known, self._limits)
        normal._canonical = text.normal(self.root, self._known)
        return normal

    def equivalent(self, other: ParsedSchema) -> bool:
        from headwater.registry.avro import text  # noqa: PLC0415

        return isinstance(other, AvroSchema) and text.canonical(self.root, {}) == text.canonical(other.root, {})

    def check_fields(self) -> None:
        for field in self.root.fields:
            if field.name.startswith("$$"):
                raise InvalidSchema(f"field '{field.name}': names must not begin with $$")

    def in_form(self, form: str) -> str:
        from headwater.registry.avro import text  # noqa: PLC0415

        return text.canonical(self.root, {}) if form == "resolved" else self.canonical

    def incompatibilities(self, previous: ParsedSchema, policy: Policy) -> Sequence[str]:  # noqa: ARG002
        from headwater.registry.avro import compatibility  # noqa: PLC0415

        assert isinstance(previous, AvroSchema)
        return compatibility.compare(self.root, previous.root, self._limits)


def parse(document: Document, limits: Limits, *, is_new: bool) -> AvroSchema:
    parser = _Parser(Budget(limits), checks_defaults=False)
    for name, text in document.resolved.items():
        try:
            parser.parse(read_json(text), "", 0)
        except InvalidSchema as error:
            raise InvalidSchema(f"reference '{name}': {error}") from None
    known = dict(parser.names)
    parser.checks_defaults = is_new
    text = document.text.strip()
    # A schema that is only a name is sent without quotation marks, too.
    root = parser.parse(text if text in _PRIMITIVES else read_json(text), "", 0)
    parser.check_defaults()
    return AvroSchema(root, known, limits)


class _Parser:
    def __init__(self, budget: Budget, *, checks_defaults: bool) -> None:
        self.names: dict[str, AvroType] = {}
        self.checks_defaults = checks_defaults
        self._budget = budget
        self._defaults: list[tuple[AvroType, Field]] = []

    def parse(self, node: Any, namespace: str, depth: int) -> AvroType:
        self._budget.take(depth)
        match node:
            case str():
                return self._named(node, namespace)
            case list():
                return self._union(cast("list[Any]", node), namespace, depth)
            case dict():
                return self._object(cast("dict[str, Any]", node), namespace, depth)
            case _:
                raise InvalidSchema(f"a type is a name, an object or an array, not {_shown(node)}")

    def _named(self, name: str, namespace: str) -> AvroType:
        primitive = _PRIMITIVES.get(name)
        if primitive is not None:
            return AvroType(primitive)
        full_name = name if "." in name or not namespace else f"{namespace}.{name}"
        found = self.names.get(full_name) or self.names.get(name)
        if found is None:
            raise InvalidSchema(f'"{_shown(name)}" is not a defined name. No type {_shown(full_name)}')
        return found

    def _union(self, branches: list[Any], namespace: str, depth: int) -> AvroType:
        union = AvroType(Kind.UNION)
        seen: set[str] = set()
        for node in branches:
            branch = self.parse(node, namespace, depth + 1)
            if branch.kind is Kind.UNION:
                raise InvalidSchema(f"Nested union: {_shown(branches)}")
            name = branch.name or branch.kind.value
            if name in seen:
                raise InvalidSchema(f"Duplicate in union:{_shown(name)}")
            seen.add(name)
            union.branches.append(branch)
        return union

    def _object(self, node: dict[str, Any], namespace: str, depth: int) -> AvroType:
        kind = node.get("type")
        if isinstance(kind, dict | list):
            # Written by some libraries: a type inside of "type". What stands beside it has no meaning.
            return self.parse(cast("Any", kind), namespace, depth + 1)
        if not isinstance(kind, str):
            raise InvalidSchema(f"No type: {_shown(node)}")
        if kind in _NAMED:
            return self._definition(kind, node, namespace, depth)
        if kind == "array":
            made = AvroType(Kind.ARRAY)
            made.items = self.parse(_required(node, "items"), namespace, depth + 1)
        elif kind == "map":
            made = AvroType(Kind.MAP)
            made.items = self.parse(_required(node, "values"), namespace, depth + 1)
        elif kind in _PRIMITIVES:
            made = AvroType(_PRIMITIVES[kind])
        else:
            return self._named(kind, namespace)
        made.properties = {key: value for key, value in node.items() if key not in _RESERVED}
        return made

    def _definition(self, kind: str, node: dict[str, Any], namespace: str, depth: int) -> AvroType:
        name, space = _full_name(node, namespace)
        made = AvroType(_NAMED[kind])
        made.name = f"{space}.{name}" if space else name
        made.is_error = kind == "error"
        made.doc = _text(node, "doc")
        made.aliases = [_alias(alias, space) for alias in _texts(node, "aliases")]
        if made.name in self.names:
            raise InvalidSchema(f"Can't redefine: {_shown(made.name)}")
        # Before its fields are read: they may refer to it.
        self.names[made.name] = made
        if made.kind is Kind.RECORD:
            self._fields(made, node, space, depth)
        elif made.kind is Kind.ENUM:
            _symbols(made, node)
        else:
            size = node.get("size")
            if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _FIXED_SIZE_MAX:
                raise InvalidSchema(f"Invalid or no size: {_shown(node)}")
            made.size = size
        kept = _RESERVED if made.kind is Kind.ENUM else _RESERVED - {"default"}
        made.properties = {key: value for key, value in node.items() if key not in kept}
        return made

    def _fields(self, record: AvroType, node: dict[str, Any], space: str, depth: int) -> None:
        fields = node.get("fields")
        if not isinstance(fields, list):
            raise InvalidSchema(f"Record has no fields: {_shown(node)}")
        seen: set[str] = set()
        for each in cast("list[Any]", fields):
            if not isinstance(each, dict):
                raise InvalidSchema(f"a field is an object, not {_shown(each)}")
            stated = cast("dict[str, Any]", each)
            name = _text(stated, "name")
            if name is None:
                raise InvalidSchema(f"No field name: {_shown(stated)}")
            _check_name(name)
            if name in seen:
                raise InvalidSchema(f"Duplicate field {_shown(name)} in record {_shown(record.name)}")
            seen.add(name)
            order = stated.get("order", "ascending")
            if not isinstance(order, str) or order.lower() not in _ORDERS:
                raise InvalidSchema(f"field '{name}': the order is one of {', '.join(_ORDERS)}")
            field = Field(name, self.parse(_required(stated, "type"), space, depth + 1))
            field.doc = _text(stated, "doc")
            field.order = order.lower()
            field.aliases = _texts(stated, "aliases")
            field.has_default = "default" in stated
            field.default = stated.get("default")
            field.properties = {key: value for key, value in stated.items() if key not in _FIELD_RESERVED}
            record.fields.append(field)
            if field.has_default and self.checks_defaults:
                self._defaults.append((record, field))

    def check_defaults(self) -> None:
        # Late import: only new schemas are checked so.
        from headwater.registry.avro.defaults import fits  # noqa: PLC0415

        for record, field in self._defaults:
            if not fits(field.type, field.default):
                raise InvalidSchema(
                    f"Invalid default for field {field.name} of {record.name}: {_shown(field.default)} is not a "
                    f"{field.type.kind.value}"
                )


def _symbols(enum: AvroType, node: dict[str, Any]) -> None:
    symbols = node.get("symbols")
    if not isinstance(symbols, list):
        raise InvalidSchema(f"Enum has no symbols: {_shown(node)}")
    for symbol in cast("list[Any]", symbols):
        if not isinstance(symbol, str):
            raise InvalidSchema(f"a symbol is a string, not {_shown(symbol)}")
        _check_name(symbol)
        if symbol in enum.symbol_set:
            raise InvalidSchema(f"Duplicate enum symbol: {_shown(symbol)}")
        enum.symbols.append(symbol)
        enum.symbol_set.add(symbol)
    default = node.get("default")
    if default is not None:
        if default not in enum.symbols:
            raise InvalidSchema(f"The Enum Default: {_shown(default)} is not in the enum symbol set")
        enum.default = str(default)


def _full_name(node: dict[str, Any], namespace: str) -> tuple[str, str]:
    name = _text(node, "name")
    if name is None:
        raise InvalidSchema(f"No name in schema: {_shown(node)}")
    space, dot, simple = name.rpartition(".")
    if not dot:
        stated = _text(node, "namespace")
        space = namespace if stated is None else stated
    if simple in _PRIMITIVES:
        raise InvalidSchema(f"Schemas may not be named after primitives: {simple}")
    _check_name(simple)
    for part in space.split(".") if space else ():
        _check_name(part)
    return simple, space


def _alias(alias: str, space: str) -> str:
    return alias if "." in alias or not space else f"{space}.{alias}"


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidSchema(f"Illegal character in: {_shown(name)}" if name else "Empty name")


def _required(node: dict[str, Any], key: str) -> Any:
    if key not in node:
        raise InvalidSchema(f"No {key}: {_shown(node)}")
    return node[key]


def _text(node: dict[str, Any], key: str) -> str | None:
    value = node.get(key)
    if value is not None and not isinstance(value, str):
        raise InvalidSchema(f"'{key}' is a string, not {_shown(value)}")
    return value


def _texts(node: dict[str, Any], key: str) -> list[str]:
    value = node.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, str) for each in cast("list[Any]", value)):
        raise InvalidSchema(f"'{key}' is an array of strings, not {_shown(value)}")
    return cast("list[str]", value)


def _shown(node: Any) -> str:
    text = str(node)
    return text if len(text) <= 100 else f"{text[:100]}..."
