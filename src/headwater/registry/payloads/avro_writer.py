"""Values as Avro's binary form: the functions of `avro.py` that write."""

import struct
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias, cast

from headwater.registry.avro.types import AvroType, Field, Kind
from headwater.registry.errors import InvalidPayload
from headwater.registry.payloads.avro_values import (
    INT_LIMIT,
    LONG_LIMIT,
    UnionChoice,
    is_integer,
    number_from_json,
    shown,
)
from headwater.registry.payloads.codec import DEPTH_MAX, Form, too_deep

# Defaults are written where a field is missing, so that a small value can become a large payload.
BYTES_MAX = 64 << 20

_pack_float = struct.Struct("<f").pack
_pack_double = struct.Struct("<d").pack

# The bytes so far, the value, and how deep it is.
Write: TypeAlias = Callable[[bytearray, Any, int], None]


class WriterCompiler:
    def __init__(self, form: Form) -> None:
        self._is_json = form is Form.JSON
        self._records: dict[int, Write] = {}

    def compiled(self, avro_type: AvroType) -> Write:
        match avro_type.kind:
            case Kind.NULL:
                return _write_null
            case Kind.BOOLEAN:
                return _write_boolean
            case Kind.INT:
                return partial(_write_integer, INT_LIMIT, "an int of 32 bits")
            case Kind.LONG:
                return partial(_write_integer, LONG_LIMIT, "a long of 64 bits")
            case Kind.FLOAT:
                return partial(_write_floating, _pack_float, self._is_json)
            case Kind.DOUBLE:
                return partial(_write_floating, _pack_double, self._is_json)
            case Kind.BYTES:
                return partial(_write_bytes, self._is_json)
            case Kind.STRING:
                return _write_string
            case Kind.FIXED:
                return partial(_write_fixed, self._is_json, avro_type.size)
            case Kind.ENUM:
                return self._enum(avro_type)
            case Kind.ARRAY:
                return self._array(avro_type)
            case Kind.MAP:
                return self._map(avro_type)
            case Kind.UNION:
                return self._union(avro_type)
            case Kind.RECORD:
                return self._records.get(id(avro_type)) or self._record(avro_type)

    def _record(self, record: AvroType) -> Write:
        fields: list[tuple[str, Write, Callable[[], bytes] | None]] = []

        def write(written: bytearray, value: Any, depth: int) -> None:
            if not isinstance(value, dict):
                raise _mismatch(value, f"a record {record.name}")
            _check_room(written, depth)
            given = cast("dict[str, Any]", value)
            found = 0
            name = ""
            try:
                for name, write_field, default in fields:
                    if name in given:
                        found += 1
                        write_field(written, given[name], depth + 1)
                    elif default is not None:
                        written += default()
                    else:
                        raise InvalidPayload("", "the field is missing, and has no default")
            except InvalidPayload as error:
                raise error.inside(name) from None
            if found < len(given):
                names = {name for name, _, _ in fields}
                unknown = next(name for name in given if name not in names)
                raise InvalidPayload(f"/{unknown[:100]}", f"the record {record.name} has no such field")

        # Before its fields are compiled: they may refer to it.
        self._records[id(record)] = write
        fields += [(field.name, self.compiled(field.type), self._default(field)) for field in record.fields]
        return write

    def _default(self, field: Field) -> Callable[[], bytes] | None:
        if not field.has_default:
            return None
        known: list[bytes] = []

        def default() -> bytes:
            if not known:
                written = bytearray()
                WriterCompiler(Form.JSON).compiled(field.type)(written, field.default, 0)
                known.append(bytes(written))
            return known[0]

        return default

    def _enum(self, enum: AvroType) -> Write:
        numbers = {symbol: number for number, symbol in enumerate(enum.symbols)}

        def write(written: bytearray, value: Any, depth: int) -> None:  # noqa: ARG001
            number = numbers.get(value) if isinstance(value, str) else None
            if number is None:
                raise _mismatch(value, f"a symbol of the enum {enum.name}")
            _put_number(written, number)

        return write

    def _array(self, array: AvroType) -> Write:
        write_item = self.compiled(array.element)

        def write(written: bytearray, value: Any, depth: int) -> None:
            if not isinstance(value, list | tuple):
                raise _mismatch(value, "an array")
            _check_room(written, depth)
            items = cast("list[Any]", value)
            if items:
                _put_number(written, len(items))
            for index, item in enumerate(items):
                try:
                    write_item(written, item, depth + 1)
                except InvalidPayload as error:
                    raise error.inside(index) from None
            written.append(0)

        return write

    def _map(self, avro_map: AvroType) -> Write:
        write_value = self.compiled(avro_map.element)

        def write(written: bytearray, value: Any, depth: int) -> None:
            if not isinstance(value, dict):
                raise _mismatch(value, "a map")
            _check_room(written, depth)
            values = cast("dict[Any, Any]", value)
            if values:
                _put_number(written, len(values))
            for key, each in values.items():
                try:
                    _write_string(written, key, depth)
                    write_value(written, each, depth + 1)
                except InvalidPayload as error:
                    raise error.inside(str(key)[:100]) from None
            written.append(0)

        return write

    def _union(self, union: AvroType) -> Write:
        choice = UnionChoice(union.branches, is_json=self._is_json)
        writers = [self.compiled(branch) for branch in union.branches]

        def write(written: bytearray, value: Any, depth: int) -> None:
            number = choice.named(cast("dict[str, Any]", value)) if isinstance(value, dict) else None
            if number is not None:
                (value,) = cast("dict[str, Any]", value).values()
            else:
                number = choice.of(value)
            if number is None:
                raise _mismatch(value, "of any type of the union")
            _put_number(written, number)
            writers[number](written, value, depth)

        return write


def _check_room(written: bytearray, depth: int) -> None:
    if depth > DEPTH_MAX:
        raise too_deep()
    if len(written) > BYTES_MAX:
        raise InvalidPayload("", f"with its defaults the value takes more than {BYTES_MAX} bytes")


def _mismatch(value: Any, wanted: str) -> InvalidPayload:
    return InvalidPayload("", f"{shown(value)} is not {wanted}")


def _put_number(written: bytearray, number: int) -> None:
    number = (number << 1) ^ (number >> 63)
    while number >= 0x80:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)


def _write_null(written: bytearray, value: Any, depth: int) -> None:  # noqa: ARG001
    if value is not None:
        raise _mismatch(value, "null")


def _write_boolean(written: bytearray, value: Any, depth: int) -> None:  # noqa: ARG001
    if not isinstance(value, bool):
        raise _mismatch(value, "a boolean")
    written.append(value)


def _write_integer(limit: int, kind: str, written: bytearray, value: Any, depth: int) -> None:  # noqa: ARG001
    if not is_integer(value, limit):
        raise _mismatch(value, kind)
    _put_number(written, value)


def _write_floating(pack: Callable[[float], bytes], is_json: bool, written: bytearray, value: Any, depth: int) -> None:  # noqa: ARG001
    number = number_from_json(value) if is_json else value
    if not isinstance(number, float | int) or isinstance(number, bool):
        raise _mismatch(value, "a number")
    try:
        written += pack(number)
    except (OverflowError, struct.error):
        raise _mismatch(value, "a number that Avro's type can hold") from None


def _write_bytes(is_json: bool, written: bytearray, value: Any, depth: int) -> None:  # noqa: ARG001
    content = _content(is_json, value)
    _put_number(written, len(content))
    written += content


def _write_fixed(is_json: bool, size: int, written: bytearray, value: Any, depth: int) -> None:  # noqa: ARG001
    content = _content(is_json, value)
    if len(content) != size:
        raise InvalidPayload("", f"these are {len(content)} bytes, not {size}")
    written += content


def _content(is_json: bool, value: Any) -> bytes:
    if is_json and isinstance(value, str):
        try:
            return value.encode("latin-1")
        except UnicodeEncodeError:
            raise _mismatch(value, "bytes, one character for each") from None
    if is_json or not isinstance(value, bytes | bytearray | memoryview):
        raise _mismatch(value, "bytes")
    return bytes(cast("bytes", value))


def _write_string(written: bytearray, value: Any, depth: int) -> None:  # noqa: ARG001
    if not isinstance(value, str):
        raise _mismatch(value, "a string")
    try:
        content = value.encode()
    except UnicodeEncodeError:
        raise InvalidPayload("", "a string has half of a surrogate pair") from None
    _put_number(written, len(content))
    written += content
