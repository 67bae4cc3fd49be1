"""Avro's binary form. A schema is compiled once, into one function for each type that reads a value of it, and one that
writes it (`avro_writer.py`)."""

import struct
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from headwater.registry.avro.types import AvroType, Kind
from headwater.registry.errors import InvalidPayload
from headwater.registry.payloads.avro_values import INT_LIMIT, number_in_json, type_name
from headwater.registry.payloads.avro_writer import WriterCompiler
from headwater.registry.payloads.codec import DEPTH_MAX, Form, too_deep

# Values that take no bytes (nulls, records of nulls) are counted, for a few bytes can announce billions of them.
_STEPS_PER_BYTE = 4
_STEPS_MIN = 65_536

_unpack_float = struct.Struct("<f").unpack
_unpack_double = struct.Struct("<d").unpack


class AvroCodec:
    def __init__(self, root: AvroType, form: Form) -> None:
        self._read = _ReaderCompiler(form).compiled(root)
        self._write = WriterCompiler(form).compiled(root)

    def validate(self, payload: bytes | memoryview) -> None:
        self.decode(payload)

    def decode(self, payload: bytes | memoryview) -> Any:
        source = _Source(bytes(payload))
        value = self._read(source)
        rest = len(source.data) - source.position
        if rest:
            raise InvalidPayload("", f"{rest} bytes follow the value")
        return value

    def encode(self, value: Any) -> bytes:
        written = bytearray()
        self._write(written, value, 0)
        return bytes(written)


class _Source:
    """The bytes of a payload, and how far they are read."""

    __slots__ = ("_steps", "data", "depth", "position")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0
        self.depth = 0
        self._steps = _STEPS_MIN + _STEPS_PER_BYTE * len(data)

    def spend(self, count: int) -> None:
        """So many values follow."""
        self._steps -= count
        if self._steps < 0:
            raise InvalidPayload("", "there are more values than the bytes can hold")

    def enter(self) -> None:
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise too_deep()

    def take(self, size: int) -> bytes:
        end = self.position + size
        if size < 0 or end > len(self.data):
            raise InvalidPayload("", "the value is cut off")
        taken = self.data[self.position : end]
        self.position = end
        return taken

    def number(self) -> int:
        """A zigzag varint of at most 64 bits."""
        data, position = self.data, self.position
        number = shift = 0
        try:
            while True:
                byte = data[position]
                position += 1
                number |= (byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
                if shift > 63:
                    raise InvalidPayload("", "a number has more than 64 bits")
        except IndexError:
            raise InvalidPayload("", "the value is cut off") from None
        self.position = position
        if number >> 64:
            raise InvalidPayload("", "a number has more than 64 bits")
        return (number >> 1) ^ -(number & 1)


_Read: TypeAlias = Callable[[_Source], Any]


class _ReaderCompiler:
    def __init__(self, form: Form) -> None:
        self._is_json = form is Form.JSON
        # Records refer to each other, and to themselves.
        self._records: dict[int, _Read] = {}

    def compiled(self, avro_type: AvroType) -> _Read:
        match avro_type.kind:
            case Kind.NULL:
                return _read_null
            case Kind.BOOLEAN:
                return _read_boolean
            case Kind.INT:
                return _read_int
            case Kind.LONG:
                return _Source.number
            case Kind.FLOAT:
                return partial(_read_floating, _unpack_float, 4, self._is_json)
            case Kind.DOUBLE:
                return partial(_read_floating, _unpack_double, 8, self._is_json)
            case Kind.BYTES:
                return _read_bytes_as_text if self._is_json else _read_bytes
            case Kind.STRING:
                return _read_string
            case Kind.FIXED:
                return self._fixed(avro_type)
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

    def _record(self, record: AvroType) -> _Read:
        fields: list[tuple[str, _Read]] = []

        def read(source: _Source) -> dict[str, Any]:
            source.enter()
            source.spend(len(fields))
            value: dict[str, Any] = {}
            name = ""
            try:
                for name, read_field in fields:
                    value[name] = read_field(source)
            except InvalidPayload as error:
                raise error.inside(name) from None
            source.depth -= 1
            return value

        # Before its fields are compiled: they may refer to it.
        self._records[id(record)] = read
        fields += [(field.name, self.compiled(field.type)) for field in record.fields]
        return read

    def _fixed(self, fixed: AvroType) -> _Read:
        size = fixed.size
        if self._is_json:
            return lambda source: source.take(size).decode("latin-1")
        return lambda source: source.take(size)

    def _enum(self, enum: AvroType) -> _Read:
        symbols = tuple(enum.symbols)

        def read(source: _Source) -> str:
            number = source.number()
            if not 0 <= number < len(symbols):
                raise InvalidPayload("", f"the enum {enum.name} has no symbol {number}")
            return symbols[number]

        return read

    def _array(self, array: AvroType) -> _Read:
        read_item = self.compiled(array.element)

        def read(source: _Source) -> list[Any]:
            source.enter()
            items: list[Any] = []
            try:
                while count := _block_count(source):
                    for _ in range(count):
                        items.append(read_item(source))  # noqa: PERF401 (the length says which item is wrong)
            except InvalidPayload as error:
                raise error.inside(len(items)) from None
            source.depth -= 1
            return items

        return read

    def _map(self, avro_map: AvroType) -> _Read:
        read_value = self.compiled(avro_map.element)

        def read(source: _Source) -> dict[str, Any]:
            source.enter()
            values: dict[str, Any] = {}
            key = ""
            try:
                while count := _block_count(source):
                    for _ in range(count):
                        key = _read_string(source)
                        values[key] = read_value(source)
            except InvalidPayload as error:
                raise error.inside(key) from None
            source.depth -= 1
            return values

        return read

    def _union(self, union: AvroType) -> _Read:
        branches = [
            (None if branch.kind is Kind.NULL else type_name(branch), self.compiled(branch))
            for branch in union.branches
        ]
        is_json = self._is_json

        def read(source: _Source) -> Any:
            number = source.number()
            if not 0 <= number < len(branches):
                raise InvalidPayload("", f"the union has no type {number}")
            name, read_branch = branches[number]
            return {name: read_branch(source)} if is_json and name is not None else read_branch(source)

        return read


def _block_count(source: _Source) -> int:
    count = source.number()
    if count < 0:
        count = -count
        # The size of the block in bytes, for readers who pass over it.
        source.number()
    source.spend(count)
    return count


def _read_null(source: _Source) -> None:  # noqa: ARG001
    return None


def _read_boolean(source: _Source) -> bool:
    byte = source.take(1)
    if byte > b"\1":
        raise InvalidPayload("", "a boolean is 0 or 1")
    return byte == b"\1"


def _read_int(source: _Source) -> int:
    number = source.number()
    if not -INT_LIMIT <= number < INT_LIMIT:
        raise InvalidPayload("", f"{number} is no int of 32 bits")
    return number


def _read_floating(unpack: Callable[[bytes], tuple[Any, ...]], size: int, is_json: bool, source: _Source) -> Any:
    number = unpack(source.take(size))[0]
    return number_in_json(number) if is_json else number


def _read_bytes(source: _Source) -> bytes:
    return source.take(source.number())


def _read_bytes_as_text(source: _Source) -> str:
    return source.take(source.number()).decode("latin-1")


def _read_string(source: _Source) -> str:
    try:
        return source.take(source.number()).decode()
    except UnicodeDecodeError:
        raise InvalidPayload("", "a string is not UTF-8") from None
