"""FileDescriptorProto, the compiled form of a .proto file, which some clients send and ask for in base64.

Custom options are extensions whose definition may be elsewhere; they are left out.
"""

import binascii
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from typing import Final

from headwater.registry.errors import InvalidPayload, InvalidSchema
from headwater.registry.limits import Budget
from headwater.registry.protobuf import wire
from headwater.registry.protobuf.parser import parse as parse_text
from headwater.registry.protobuf.resolution import Scope
from headwater.registry.protobuf.tree import (
    TAG_MAX,
    Constant,
    EnumType,
    Extend,
    Extensions,
    Field,
    File,
    MapType,
    Message,
    OneOf,
    Option,
    Range,
    Reserved,
    Rpc,
    Service,
    Word,
)

# FieldDescriptorProto.Type by number; 10 is a group, 11 a message, 14 an enum.
_TYPES: Final = (
    "",
    "double",
    "float",
    "int64",
    "uint64",
    "int32",
    "fixed64",
    "fixed32",
    "bool",
    "string",
    "",
    "",
    "bytes",
    "uint32",
    "",
    "sfixed32",
    "sfixed64",
    "sint32",
    "sint64",
)
_MESSAGE, _ENUM = 11, 14
_LABELS: Final = ("", "optional", "required", "repeated")
_QUOTED_DEFAULTS: Final = frozenset({"string", "bytes"})
# Options that Protobuf itself defines: number, name and how the value is written.
_BOOLEAN, _TEXT = "boolean", "text"
_FILE_OPTIONS: Final = {
    1: ("java_package", _TEXT),
    8: ("java_outer_classname", _TEXT),
    10: ("java_multiple_files", _BOOLEAN),
    9: ("optimize_for", ("", "SPEED", "CODE_SIZE", "LITE_RUNTIME")),
    11: ("go_package", _TEXT),
    16: ("cc_generic_services", _BOOLEAN),
    17: ("java_generic_services", _BOOLEAN),
    18: ("py_generic_services", _BOOLEAN),
    23: ("deprecated", _BOOLEAN),
    27: ("java_string_check_utf8", _BOOLEAN),
    31: ("cc_enable_arenas", _BOOLEAN),
    36: ("objc_class_prefix", _TEXT),
    37: ("csharp_namespace", _TEXT),
    39: ("swift_prefix", _TEXT),
    40: ("php_class_prefix", _TEXT),
    41: ("php_namespace", _TEXT),
    44: ("php_metadata_namespace", _TEXT),
    45: ("ruby_package", _TEXT),
}
_MESSAGE_OPTIONS: Final = {
    2: ("no_standard_descriptor_accessor", _BOOLEAN),
    3: ("deprecated", _BOOLEAN),
    7: ("map_entry", _BOOLEAN),
}
_FIELD_OPTIONS: Final = {
    1: ("ctype", ("STRING", "CORD", "STRING_PIECE")),
    2: ("packed", _BOOLEAN),
    3: ("deprecated", _BOOLEAN),
    6: ("jstype", ("JS_NORMAL", "JS_STRING", "JS_NUMBER")),
}
_ENUM_OPTIONS: Final = {2: ("allow_alias", _BOOLEAN), 3: ("deprecated", _BOOLEAN)}
_CONSTANT_OPTIONS: Final = {1: ("deprecated", _BOOLEAN)}
_SERVICE_OPTIONS: Final = {33: ("deprecated", _BOOLEAN)}
_Known = Mapping[int, tuple[str, str | tuple[str, ...]]]


def decode(text: str, budget: Budget) -> File:
    try:
        # Text without any sign may be a .proto file with an error in it, which then says more.
        content = b64decode(text, validate=True)
        return _Decoder(budget).file(memoryview(content))
    except (binascii.Error, InvalidPayload, UnicodeDecodeError, ValueError):
        return parse_text(text, budget)


class _Fields:
    """The fields of a descriptor's message by number."""

    def __init__(self, data: memoryview) -> None:
        self._values: dict[int, list[int | memoryview]] = {}
        for field in wire.fields(data):
            self._values.setdefault(field.tag, []).append(field.value)

    def __contains__(self, tag: int) -> bool:
        return tag in self._values

    def text(self, tag: int) -> str:
        values = [each for each in self._values.get(tag, ()) if isinstance(each, memoryview)]
        return bytes(values[-1]).decode() if values else ""

    def texts(self, tag: int) -> list[str]:
        return [bytes(each).decode() for each in self._values.get(tag, ()) if isinstance(each, memoryview)]

    def messages(self, tag: int) -> Iterable[memoryview]:
        return [each for each in self._values.get(tag, ()) if isinstance(each, memoryview)]

    def number(self, tag: int) -> int:
        values = [each for each in self._values.get(tag, ()) if isinstance(each, int)]
        return _signed(values[-1]) if values else 0

    def numbers(self, tag: int) -> list[int]:
        numbers: list[int] = []
        for each in self._values.get(tag, ()):
            if isinstance(each, int):
                numbers.append(_signed(each))
            else:
                position = 0
                while position < len(each):
                    number, position = wire.read_varint(each, position)
                    numbers.append(_signed(number))
        return numbers


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


class _Decoder:
    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._has_presence_labels = True

    def file(self, data: memoryview) -> File:
        read = _Fields(data)
        if not read.text(1):
            raise ValueError("a descriptor has a name")
        file = File(package=read.text(2))
        file.syntax = read.text(12)
        self._has_presence_labels = file.syntax != "proto3"
        public = set(read.numbers(10))
        for number, name in enumerate(read.texts(3)):
            (file.public_imports if number in public else file.imports).append(name)
        file.messages = [self._message(each, 1) for each in read.messages(4)]
        file.enums = [self._enum(each) for each in read.messages(5)]
        file.services = [self._service(each) for each in read.messages(6)]
        file.extends = self._extends(read.messages(7))
        file.options = _options(read, 8, _FILE_OPTIONS)
        return file

    def _message(self, data: memoryview, depth: int) -> Message:
        self._budget.take(depth)
        read = _Fields(data)
        message = Message(read.text(1))
        message.options = _options(read, 7, _MESSAGE_OPTIONS)
        nested = [self._message(each, depth + 1) for each in read.messages(3)]
        message.messages = [each for each in nested if not _is_map_entry(each)]
        entries = {each.name: each for each in nested if _is_map_entry(each)}
        message.enums = [self._enum(each) for each in read.messages(4)]
        oneofs = [OneOf(_Fields(each).text(1)) for each in read.messages(8)]
        for each in read.messages(2):
            stated = _Fields(each)
            field = self._field(stated, entries)
            # A field that is `optional` in proto3 has a oneof of its own, which nobody wrote.
            if 9 in stated and not stated.number(17):
                field.label = ""
                oneofs[stated.number(9)].fields.append(field)
            else:
                message.fields.append(field)
        message.oneofs = [oneof for oneof in oneofs if oneof.fields]
        message.extensions = [Extensions((self._range(each),)) for each in read.messages(5)]
        message.extends = self._extends(read.messages(6))
        message.reserved = [(self._range(each),) for each in read.messages(9)]
        message.reserved += [(name,) for name in read.texts(10)]
        return message

    def _range(self, data: memoryview, *, is_inclusive: bool = False) -> Range:
        read = _Fields(data)
        return read.number(1), read.number(2) - (0 if is_inclusive else 1)

    def _field(self, read: _Fields, entries: dict[str, Message]) -> Field:
        self._budget.take(1)
        label = _LABELS[read.number(4)] if 0 <= read.number(4) < len(_LABELS) else ""
        type_name = read.text(6)
        entry = entries.get(type_name.rpartition(".")[2])
        number = read.number(5)
        if entry is not None and label == "repeated" and not self._is_elsewhere(type_name, entry):
            key, value = (next(each.type for each in entry.fields if each.tag == tag) for tag in (1, 2))
            return Field(read.text(1), read.number(3), MapType(str(key), str(value)))
        scalar = _TYPES[number] if 0 <= number < len(_TYPES) else ""
        kind = type_name or scalar
        if not kind:
            raise ValueError("a field has a type")
        if label == "optional" and not self._has_presence_labels and not read.number(17):
            label = ""
        field = Field(read.text(1), read.number(3), kind, label)
        field.options = _options(read, 8, _FIELD_OPTIONS)
        if 7 in read:
            default = read.text(7)
            field.options.append(Option("default", default if kind in _QUOTED_DEFAULTS else Word(default)))
        json_name = read.text(10)
        if json_name and json_name != _json_name(field.name):
            field.options.append(Option("json_name", json_name))
        return field

    @staticmethod
    def _is_elsewhere(type_name: str, entry: Message) -> bool:
        return not type_name.endswith(f".{entry.name}")

    def _enum(self, data: memoryview) -> EnumType:
        read = _Fields(data)
        enum = EnumType(read.text(1))
        for each in read.messages(2):
            self._budget.take(1)
            stated = _Fields(each)
            options = _options(stated, 3, _CONSTANT_OPTIONS)
            enum.constants.append(Constant(stated.text(1), stated.number(2), options))
        enum.options = _options(read, 3, _ENUM_OPTIONS)
        enum.reserved = [(self._range(each, is_inclusive=True),) for each in read.messages(4)]
        enum.reserved += [(name,) for name in read.texts(5)]
        return enum

    def _extends(self, data: Iterable[memoryview]) -> list[Extend]:
        extends: dict[str, Extend] = {}
        for each in data:
            read = _Fields(each)
            name = read.text(2)
            extends.setdefault(name, Extend(name)).fields.append(self._field(read, {}))
        return list(extends.values())

    def _service(self, data: memoryview) -> Service:
        read = _Fields(data)
        service = Service(read.text(1), options=_options(read, 3, _SERVICE_OPTIONS))
        for each in read.messages(2):
            self._budget.take(1)
            stated = _Fields(each)
            streams = bool(stated.number(5)), bool(stated.number(6))
            service.rpcs.append(Rpc(stated.text(1), stated.text(2), stated.text(3), *streams))
        return service


def _is_map_entry(message: Message) -> bool:
    return any(option.name == "map_entry" and option.value == Word("true") for option in message.options)


def _options(read: _Fields, tag: int, known: _Known) -> list[Option]:
    options: list[Option] = []
    for data in read.messages(tag):
        stated = _Fields(data)
        for number, (name, kind) in known.items():
            if number not in stated:
                continue
            if kind == _TEXT:
                options.append(Option(name, stated.text(number)))
            elif kind == _BOOLEAN:
                options.append(Option(name, Word("true" if stated.number(number) else "false")))
            elif 0 <= stated.number(number) < len(kind):
                options.append(Option(name, Word(kind[stated.number(number)])))
    return options


def _json_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def encode(file: File, scope: Scope, name: str) -> str:
    return b64encode(_Encoder(scope, file.syntax == "proto3").file(file, name)).decode()


class _Encoder:
    def __init__(self, scope: Scope, is_proto3: bool) -> None:
        self._scope = scope
        self._is_proto3 = is_proto3

    def file(self, file: File, name: str) -> bytes:
        parts = [wire.text_field(1, name)]
        if file.package:
            parts.append(wire.text_field(2, file.package))
        imports = [*file.imports, *file.public_imports]
        parts += [wire.text_field(3, each) for each in imports]
        parts += [wire.bytes_field(4, self._message(each)) for each in file.messages]
        parts += [wire.bytes_field(5, self._enum(each)) for each in file.enums]
        parts += [wire.bytes_field(6, self._service(each)) for each in file.services]
        parts += self._extends(7, file.extends)
        parts += _written_options(8, file.options, _FILE_OPTIONS)
        parts += [wire.number_field(10, number) for number in range(len(file.imports), len(imports))]
        if file.syntax and file.syntax != "proto2":
            parts.append(wire.text_field(12, file.syntax))
        return b"".join(parts)

    def _message(self, message: Message) -> bytes:
        if message.groups or any(oneof.groups for oneof in message.oneofs):
            raise InvalidSchema(f"{message.name} has groups, which cannot be serialized")
        self._scope.path.append(message.name)
        parts = [wire.text_field(1, message.name)]
        entries: list[Message] = []
        synthetic: list[str] = []
        for field in message.fields:
            index = None
            if self._is_proto3 and field.label == "optional":
                index = len(message.oneofs) + len(synthetic)
                synthetic.append(f"_{field.name}")
            parts.append(wire.bytes_field(2, self._field(field, entries, index, is_presence=index is not None)))
        for number, oneof in enumerate(message.oneofs):
            parts += [wire.bytes_field(2, self._field(field, entries, number)) for field in oneof.fields]
        parts += [wire.bytes_field(3, self._message(each)) for each in message.messages]
        parts += [wire.bytes_field(3, self._message(each) + _MAP_ENTRY) for each in entries]
        parts += [wire.bytes_field(4, self._enum(each)) for each in message.enums]
        parts += [
            wire.bytes_field(5, _range(numbers)) for extensions in message.extensions for numbers in extensions.ranges
        ]
        parts += self._extends(6, message.extends)
        parts += _written_options(7, message.options, _MESSAGE_OPTIONS)
        names = [oneof.name for oneof in message.oneofs] + synthetic
        parts += [wire.bytes_field(8, wire.text_field(1, name)) for name in names]
        parts += _written_reserved(9, 10, message.reserved, is_inclusive=False)
        self._scope.path.pop()
        return b"".join(parts)

    def _field(
        self, field: Field, entries: list[Message], oneof: int | None = None, *, is_presence: bool = False
    ) -> bytes:
        label, kind = field.label or "optional", field.type
        if isinstance(kind, MapType):
            name = "".join(part[:1].upper() + part[1:] for part in field.name.split("_")) + "Entry"
            entry = Message(name, [Field("key", 1, kind.key), Field("value", 2, kind.value)])
            entries.append(entry)
            label = "repeated"
            prefix = ".".join([*([self._scope.package] if self._scope.package else []), *self._scope.path])
            number, type_name = _MESSAGE, f".{prefix}.{name}"
        elif kind in _TYPES:
            number, type_name = _TYPES.index(kind), ""
        else:
            type_name = "." + self._scope.existing(kind)
            number = _ENUM if isinstance(self._scope.types[type_name[1:]].type, EnumType) else _MESSAGE
        parts = [wire.text_field(1, field.name), wire.number_field(3, field.tag)]
        parts += [wire.number_field(4, _LABELS.index(label)), wire.number_field(5, number)]
        if type_name:
            parts.append(wire.text_field(6, type_name))
        json_name = _json_name(field.name)
        for option in field.options:
            value = option.value.text if isinstance(option.value, Word) else option.value
            if option.name == "default" and isinstance(value, str):
                parts.append(wire.text_field(7, value))
            elif option.name == "json_name" and isinstance(value, str):
                json_name = value
        parts += _written_options(8, field.options, _FIELD_OPTIONS)
        if oneof is not None:
            parts.append(wire.number_field(9, oneof))
        parts.append(wire.text_field(10, json_name))
        if is_presence:
            parts.append(wire.number_field(17, 1))
        return b"".join(parts)

    def _enum(self, enum: EnumType) -> bytes:
        parts = [wire.text_field(1, enum.name)]
        for constant in enum.constants:
            written = wire.text_field(1, constant.name) + wire.number_field(2, constant.tag)
            written += b"".join(_written_options(3, constant.options, _CONSTANT_OPTIONS))
            parts.append(wire.bytes_field(2, written))
        parts += _written_options(3, enum.options, _ENUM_OPTIONS)
        parts += _written_reserved(4, 5, enum.reserved, is_inclusive=True)
        return b"".join(parts)

    def _extends(self, tag: int, extends: Iterable[Extend]) -> list[bytes]:
        return [
            wire.bytes_field(tag, self._field(field, []) + wire.text_field(2, "." + self._scope.existing(extend.name)))
            for extend in extends
            for field in extend.fields
        ]

    def _service(self, service: Service) -> bytes:
        parts = [wire.text_field(1, service.name)]
        for rpc in service.rpcs:
            written = wire.text_field(1, rpc.name)
            written += wire.text_field(2, "." + self._scope.existing(rpc.request))
            written += wire.text_field(3, "." + self._scope.existing(rpc.response))
            if rpc.streams_request:
                written += wire.number_field(5, 1)
            if rpc.streams_response:
                written += wire.number_field(6, 1)
            parts.append(wire.bytes_field(2, written))
        parts += _written_options(3, service.options, _SERVICE_OPTIONS)
        return b"".join(parts)


_MAP_ENTRY: Final = wire.bytes_field(7, wire.number_field(7, 1))


def _range(numbers: Range, *, is_inclusive: bool = False) -> bytes:
    first, last = numbers
    end = last if is_inclusive else min(last, TAG_MAX) + 1
    return wire.number_field(1, first) + wire.number_field(2, end)


def _written_reserved(tag: int, name_tag: int, reserved: Iterable[Reserved], *, is_inclusive: bool) -> list[bytes]:
    return [
        wire.text_field(name_tag, each)
        if isinstance(each, str)
        else wire.bytes_field(tag, _range(each, is_inclusive=is_inclusive))
        for statement in reserved
        for each in statement
    ]


def _written_options(tag: int, options: Iterable[Option], known: _Known) -> list[bytes]:
    by_name = {name: (number, kind) for number, (name, kind) in known.items()}
    written = b""
    for option in options:
        number, kind = by_name.get(option.name, (0, ""))
        value = option.value
        if kind == _TEXT and isinstance(value, str):
            written += wire.text_field(number, value)
        elif isinstance(value, Word) and kind == _BOOLEAN:
            written += wire.number_field(number, int(value.text == "true"))
        elif isinstance(value, Word) and isinstance(kind, tuple) and value.text in kind:
            written += wire.number_field(number, kind.index(value.text))
    return [wire.bytes_field(tag, written)] if written else []
