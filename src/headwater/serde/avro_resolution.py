"""Avro values as a reader wants them: what one schema wrote, read by another (Avro's schema resolution), with Python's
types for logical types.

The codec decodes into Avro's JSON encoding, in which the value of a union names its type; what is built here takes such
a value apart. Both schemas may be the same.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from headwater.registry.avro.types import AvroType, Field, Kind
from headwater.registry.errors import InvalidPayload
from headwater.registry.payloads.avro import AvroCodec
from headwater.registry.payloads.avro_values import number_from_json, type_name
from headwater.registry.payloads.codec import Form
from headwater.serde.avro_logical import converted, from_base, to_base

Resolve = Callable[[Any], Any]

# What values of the first type can be read as.
_PROMOTIONS: Final = {
    Kind.INT: {Kind.LONG, Kind.FLOAT, Kind.DOUBLE},
    Kind.LONG: {Kind.FLOAT, Kind.DOUBLE},
    Kind.FLOAT: {Kind.DOUBLE},
    Kind.STRING: {Kind.BYTES},
    Kind.BYTES: {Kind.STRING},
}


class AvroReader:
    """Decodes what `writer` wrote into values of `reader`. Raises InvalidPayload."""

    def __init__(self, writer: AvroType, reader: AvroType) -> None:
        self._codec = AvroCodec(writer, Form.JSON)
        self._resolve = _Resolver().of(writer, reader)

    def decode(self, payload: bytes | memoryview) -> Any:
        return self._resolve(self._codec.decode(payload))


class AvroWriter:
    """Encodes values of a schema, with Python's types for logical types. Raises InvalidPayload."""

    def __init__(self, root: AvroType) -> None:
        self._codec = AvroCodec(root, Form.NATIVE)
        self._prepare = _Preparer().of(root)

    def encode(self, value: Any) -> bytes:
        return self._codec.encode(value if self._prepare is None else self._prepare(value))


class _Resolver:
    def __init__(self) -> None:
        # Records may hold themselves.
        self._records: dict[tuple[int, int], Resolve] = {}

    def of(self, writer: AvroType, reader: AvroType) -> Resolve:
        if writer.kind is Kind.UNION:
            return self._from_union(writer, reader)
        if reader.kind is Kind.UNION:
            branch = next((each for each in reader.branches if _is_same(writer, each)), None) or next(
                (each for each in reader.branches if _matches(writer, each)), None
            )
            return _unreadable(writer, reader) if branch is None else self.of(writer, branch)
        if not _matches(writer, reader):
            return _unreadable(writer, reader)
        convert = from_base(reader)
        resolve = self._plain(writer, reader)
        return resolve if convert is None else lambda value: converted(convert, resolve(value))

    def _plain(self, writer: AvroType, reader: AvroType) -> Resolve:
        match reader.kind:
            case Kind.RECORD:
                return self._records.get((id(writer), id(reader))) or self._record(writer, reader)
            case Kind.ENUM:
                return _enum(reader)
            case Kind.ARRAY:
                return self._array(writer, reader)
            case Kind.MAP:
                return self._map(writer, reader)
            case Kind.FLOAT | Kind.DOUBLE:
                return lambda value: float(number_from_json(value))
            case Kind.BYTES:
                return _text_as_bytes if writer.kind is Kind.STRING else _latin_as_bytes
            case Kind.FIXED:
                return _latin_as_bytes
            case Kind.STRING if writer.kind is Kind.BYTES:
                return _bytes_as_text
            case _:
                return _same

    def _from_union(self, writer: AvroType, reader: AvroType) -> Resolve:
        branches = {type_name(each): self.of(each, reader) for each in writer.branches}

        def resolve(value: Any) -> Any:
            if value is None:
                return branches[Kind.NULL.value](None)
            ((name, inner),) = cast("dict[str, Any]", value).items()
            return branches[name](inner)

        return resolve

    def _record(self, writer: AvroType, reader: AvroType) -> Resolve:
        fields: list[tuple[str, str | None, Resolve]] = []

        def resolve(value: Any) -> dict[str, Any]:
            given = cast("dict[str, Any]", value)
            found: dict[str, Any] = {}
            name = ""
            try:
                for name, written, resolve_field in fields:
                    found[name] = resolve_field(None if written is None else given[written])
            except InvalidPayload as error:
                raise error.inside(name) from None
            return found

        self._records[id(writer), id(reader)] = resolve
        by_name = {field.name: field for field in writer.fields}
        for field in reader.fields:
            written = next((by_name[name] for name in (field.name, *field.aliases) if name in by_name), None)
            if written is None:
                fields.append((field.name, None, self._default(field)))
            else:
                fields.append((field.name, written.name, self.of(written.type, field.type)))
        return resolve

    def _default(self, field: Field) -> Resolve:
        if not field.has_default:
            return _missing
        codec = AvroCodec(field.type, Form.JSON)
        resolve = self.of(field.type, field.type)
        # Made anew each time: the caller may change it.
        return lambda _: resolve(codec.decode(codec.encode(field.default)))

    def _array(self, writer: AvroType, reader: AvroType) -> Resolve:
        resolve_item = self.of(writer.element, reader.element)

        def resolve(value: Any) -> list[Any]:
            items: list[Any] = []
            try:
                for item in cast("list[Any]", value):
                    items.append(resolve_item(item))  # noqa: PERF401 (the length says which item is wrong)
            except InvalidPayload as error:
                raise error.inside(len(items)) from None
            return items

        return resolve

    def _map(self, writer: AvroType, reader: AvroType) -> Resolve:
        resolve_value = self.of(writer.element, reader.element)

        def resolve(value: Any) -> dict[str, Any]:
            key = ""
            found: dict[str, Any] = {}
            try:
                for key, each in cast("Mapping[str, Any]", value).items():
                    found[key] = resolve_value(each)
            except InvalidPayload as error:
                raise error.inside(key) from None
            return found

        return resolve


class _Preparer:
    """Makes stored values of Python's dates, times, decimals and UUIDs. None where a type has no such values in it."""

    def __init__(self) -> None:
        self._records: dict[int, Resolve] = {}

    def of(self, avro_type: AvroType) -> Resolve | None:
        logical = to_base(avro_type)
        if logical is not None:
            fits, convert = logical
            return lambda value: convert(value) if fits(value) else value
        match avro_type.kind:
            case Kind.RECORD:
                return self._record(avro_type)
            case Kind.ARRAY:
                prepare = self.of(avro_type.element)
                return None if prepare is None else _each_item(prepare)
            case Kind.MAP:
                prepare = self.of(avro_type.element)
                return None if prepare is None else _each_value(prepare)
            case Kind.UNION:
                return self._union(avro_type)
            case _:
                return None

    def _record(self, record: AvroType) -> Resolve | None:
        known = self._records.get(id(record))
        if known is not None:
            return known
        fields: dict[str, Resolve] = {}

        def prepare(value: Any) -> Any:
            if not isinstance(value, dict):
                return value
            given = cast("dict[str, Any]", value)
            name = ""
            changed: dict[str, Any] = {}
            try:
                for name, each in fields.items():
                    if name in given:
                        changed[name] = each(given[name])
            except InvalidPayload as error:
                raise error.inside(name) from None
            return {**given, **changed}

        self._records[id(record)] = prepare
        for field in record.fields:
            found = self.of(field.type)
            if found is not None:
                fields[field.name] = found
        return prepare if fields else None

    def _union(self, union: AvroType) -> Resolve | None:
        prepared = [(each, found) for each in union.branches if (found := self.of(each)) is not None]
        if not prepared:
            return None

        def prepare(value: Any) -> Any:
            for branch, each in prepared:
                if _may_be(branch, value):
                    return each(value)
            return value

        return prepare


def _each_item(prepare: Resolve) -> Resolve:
    def each_item(value: Any) -> Any:
        if not isinstance(value, list | tuple):
            return value
        return [prepare(each) for each in cast("list[Any]", value)]

    return each_item


def _each_value(prepare: Resolve) -> Resolve:
    def each_value(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {key: prepare(each) for key, each in cast("dict[str, Any]", value).items()}

    return each_value


def _may_be(branch: AvroType, value: Any) -> bool:
    logical = to_base(branch)
    if logical is not None:
        return logical[0](value)
    match branch.kind:
        case Kind.RECORD:
            return (
                isinstance(value, dict)
                and {field.name for field in branch.fields} >= cast("dict[str, Any]", value).keys()
            )
        case Kind.MAP:
            return isinstance(value, dict)
        case _:
            return isinstance(value, list | tuple)


def _is_same(writer: AvroType, reader: AvroType) -> bool:
    return writer.kind is reader.kind and (not writer.kind.is_named or writer.name == reader.name)


def _matches(writer: AvroType, reader: AvroType) -> bool:
    if writer.kind is not reader.kind:
        return reader.kind in _PROMOTIONS.get(writer.kind, ())
    if not writer.kind.is_named:
        return True
    names = {writer.name, writer.simple_name}
    is_named = reader.simple_name == writer.simple_name or not names.isdisjoint(reader.aliases)
    return is_named and (writer.kind is not Kind.FIXED or writer.size == reader.size)


def _unreadable(writer: AvroType, reader: AvroType) -> Resolve:
    def refuse(_: Any) -> Any:
        wanted = " or ".join(map(type_name, reader.branches)) if reader.kind is Kind.UNION else type_name(reader)
        raise InvalidPayload("", f"the writer's type {type_name(writer)} cannot be read as {wanted}")

    return refuse


def _missing(_: Any) -> Any:
    raise InvalidPayload("", "the writer's schema has no such field, and the reader's has no default for it")


def _enum(reader: AvroType) -> Resolve:
    def resolve(symbol: Any) -> Any:
        if symbol in reader.symbol_set:
            return symbol
        if reader.default is not None:
            return reader.default
        raise InvalidPayload("", f"the reader's enum {reader.name} has no symbol {symbol}")

    return resolve


def _same(value: Any) -> Any:
    return value


def _latin_as_bytes(value: str) -> bytes:
    return value.encode("latin-1")


def _text_as_bytes(value: str) -> bytes:
    return value.encode()


def _bytes_as_text(value: str) -> str:
    try:
        return value.encode("latin-1").decode()
    except UnicodeDecodeError:
        raise InvalidPayload("", "the bytes are not UTF-8") from None
