"""A .proto file as text, in Confluent's form; and in normal form, with full names and members in order."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from headwater.registry.protobuf.resolution import Scope
from headwater.registry.protobuf.tree import (
    SCALARS,
    TAG_MAX,
    Aggregate,
    EnumType,
    Extend,
    Extensions,
    Field,
    File,
    Group,
    MapType,
    Message,
    OneOf,
    Option,
    Range,
    Reserved,
    Rpc,
    Service,
    Value,
    Word,
)

_ESCAPED = str.maketrans(
    {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        "'": "\\'",
        '"': '\\"',
    }
)


def canonical(file: File) -> str:
    return _Printer(None).file(file)


def normal(file: File, scope: Scope) -> str:
    """Raises InvalidSchema if a type is not known."""
    return _Printer(scope).file(file)


class _Printer:
    def __init__(self, scope: Scope | None) -> None:
        # Given for the normal form alone.
        self._scope = scope

    def file(self, file: File) -> str:
        parts: list[str] = []
        if file.syntax and (self._scope is None or file.syntax == "proto3"):
            parts.append(f'syntax = "{file.syntax}";\n')
        if file.edition:
            parts.append(f'edition = "{file.edition}";\n')
        if file.package:
            parts.append(f"package {file.package};\n")
        if file.imports or file.public_imports:
            parts.append("\n")
            parts += [f'import "{name}";\n' for name in self._sorted_names(file.imports)]
            parts += [f'import public "{name}";\n' for name in self._sorted_names(file.public_imports)]
        if file.options:
            parts.append("\n")
            parts += [self._statement(option) for option in self._sorted_options(file.options)]
        if file.messages or file.enums:
            parts.append("\n")
            parts += [self._message(message) for message in file.messages]
            parts += [self._enum(enum) for enum in file.enums]
        if file.extends:
            parts.append("\n")
            parts += [self._extend(extend) for extend in self._grouped(file.extends)]
        if file.services:
            parts.append("\n")
            parts += [self._service(service) for service in file.services]
        return "".join(parts)

    def _message(self, message: Message) -> str:
        with _Nested(self._scope, message.name):
            sections = [
                [self._reserved(each) for each in self._split_reserved(message.reserved)],
                [self._statement(option) for option in self._sorted_options(message.options)],
                [self._field(field) for field in self._by_tag(message.fields)],
                [self._oneof(oneof) for oneof in self._ordered(message.oneofs)],
                [self._group(group) for group in self._groups_by_tag(message.groups)],
                [self._extensions(each) for each in self._split_extensions(message.extensions)],
                [self._extend(extend) for extend in self._grouped(message.extends)],
                [self._message(each) for each in message.messages] + [self._enum(each) for each in message.enums],
            ]
        body = "".join("\n" + _indented(section) for section in sections if section)
        return f"message {message.name} {{{body}}}\n"

    def _enum(self, enum: EnumType) -> str:
        lines = [self._reserved(each) for each in self._split_reserved(enum.reserved)]
        lines += [self._statement(option) for option in self._sorted_options(enum.options)]
        constants = enum.constants
        if self._scope is not None:
            constants = sorted(constants, key=lambda each: (each.tag, each.name))
        lines += [f"{each.name} = {each.tag}{self._bracketed(each.options)};\n" for each in constants]
        body = "\n" + _indented(lines) if lines else ""
        return f"enum {enum.name} {{{body}}}\n"

    def _field(self, field: Field) -> str:
        label = f"{field.label} " if field.label and not isinstance(field.type, MapType) else ""
        return f"{label}{self._type(field.type)} {field.name} = {field.tag}{self._bracketed(field.options)};\n"

    def _type(self, kind: str | MapType) -> str:
        if isinstance(kind, MapType):
            return f"map<{kind.key}, {self._type(kind.value)}>"
        return kind if self._scope is None or kind in SCALARS else self._full(kind)

    def _full(self, name: str) -> str:
        return name if self._scope is None else "." + self._scope.existing(name)

    def _oneof(self, oneof: OneOf) -> str:
        sections = [
            [self._statement(option) for option in self._sorted_options(oneof.options)],
            [self._field(field) for field in self._by_tag(oneof.fields)],
            [self._group(group) for group in self._groups_by_tag(oneof.groups)],
        ]
        body = "".join("\n" + _indented(section) for section in sections if section)
        return f"oneof {oneof.name} {{{body}}}\n"

    def _group(self, group: Group) -> str:
        label = f"{group.label} " if group.label else ""
        lines = [self._field(field) for field in self._by_tag(group.fields)]
        body = "\n" + _indented(lines) if lines else ""
        return f"{label}group {group.name} = {group.tag} {{{body}}}\n"

    def _extend(self, extend: Extend) -> str:
        lines = [self._field(field) for field in self._by_tag(extend.fields)]
        body = "\n" + _indented(lines) if lines else ""
        return f"extend {extend.name} {{{body}}}\n"

    def _extensions(self, extensions: Extensions) -> str:
        ranges = ", ".join(self._range(each) for each in extensions.ranges)
        return f"extensions {ranges}{self._bracketed(extensions.options)};\n"

    def _reserved(self, reserved: Reserved) -> str:
        values = (f'"{each}"' if isinstance(each, str) else self._range(each) for each in reserved)
        return f"reserved {', '.join(values)};\n"

    def _range(self, numbers: Range) -> str:
        first, last = numbers
        if first == last:
            return str(first)
        return f"{first} to {'max' if last >= TAG_MAX else last}"

    def _service(self, service: Service) -> str:
        sections = [
            [self._statement(option) for option in self._sorted_options(service.options)],
            [self._rpc(rpc) for rpc in service.rpcs],
        ]
        body = "".join("\n" + _indented(section) for section in sections if section)
        return f"service {service.name} {{{body}}}\n"

    def _rpc(self, rpc: Rpc) -> str:
        request = ("stream " if rpc.streams_request else "") + self._full(rpc.request)
        response = ("stream " if rpc.streams_response else "") + self._full(rpc.response)
        options = [self._statement(option) for option in self._sorted_options(rpc.options)]
        body = f" {{\n{_indented(options)}}}" if options else ""
        return f"rpc {rpc.name} ({request}) returns ({response}){body};\n"

    # -- options

    def _statement(self, option: Option) -> str:
        return f"option {self._option(option)};\n"

    def _bracketed(self, options: Sequence[Option]) -> str:
        written = [self._option(option) for option in self._sorted_options(options)]
        if not written:
            return ""
        if len(written) == 1:
            return f" [{written[0]}]"
        return f" [\n{_indented([*(each + ',' for each in written[:-1]), written[-1]])}]"

    def _option(self, option: Option) -> str:
        return f"{option.name} = {self._value(option.value)}"

    def _value(self, value: Value) -> str:
        match value:
            case str():
                return f'"{value.translate(_ESCAPED)}"'
            case Word(text):
                return text
            case Aggregate(entries):
                if self._scope is not None:
                    entries = tuple(sorted(entries, key=lambda each: each[0]))
                lines = [f"{key}: {self._value(each)}" for key, each in entries]
                return "{\n" + _indented(_with_commas(lines)) + "}"
            case _:
                if self._scope is not None and len(value) == 1:
                    return self._value(value[0])
                return "[\n" + _indented(_with_commas([self._value(each) for each in value])) + "]"

    # -- order in the normal form

    def _sorted_names(self, names: Iterable[str]) -> Iterable[str]:
        return names if self._scope is None else sorted(set(names))

    def _sorted_options(self, options: Sequence[Option]) -> Sequence[Option]:
        return options if self._scope is None else sorted(options, key=lambda option: option.name)

    def _by_tag(self, fields: Sequence[Field]) -> Sequence[Field]:
        return fields if self._scope is None else sorted(fields, key=lambda field: field.tag)

    def _groups_by_tag(self, groups: Sequence[Group]) -> Sequence[Group]:
        return groups if self._scope is None else sorted(groups, key=lambda group: group.tag)

    def _ordered(self, oneofs: Sequence[OneOf]) -> Sequence[OneOf]:
        if self._scope is None:
            return oneofs
        filled = (each for each in oneofs if each.fields)
        return sorted(filled, key=lambda each: min(field.tag for field in each.fields))

    def _split_reserved(self, reserved: Sequence[Reserved]) -> Sequence[Reserved]:
        if self._scope is None:
            return reserved
        values = [each for statement in reserved for each in statement]
        values.sort(key=lambda each: (TAG_MAX + 1, each) if isinstance(each, str) else (each[0], str(each)))
        return [(each,) for each in values]

    def _split_extensions(self, extensions: Sequence[Extensions]) -> Sequence[Extensions]:
        if self._scope is None:
            return extensions
        split = [replace(each, ranges=(numbers,)) for each in extensions for numbers in each.ranges]
        return sorted(split, key=lambda each: each.ranges)

    def _grouped(self, extends: Sequence[Extend]) -> Sequence[Extend]:
        if self._scope is None:
            return extends
        grouped: dict[str, Extend] = {}
        for extend in extends:
            name = self._full(extend.name)
            grouped.setdefault(name, Extend(name)).fields += extend.fields
        return list(grouped.values())


class _Nested:
    """Context manager: names are looked up inside of a message first."""

    def __init__(self, scope: Scope | None, name: str) -> None:
        self._scope = scope
        self._name = name

    def __enter__(self) -> None:
        if self._scope is not None:
            self._scope.path.append(self._name)

    def __exit__(self, *_: object) -> None:
        if self._scope is not None:
            self._scope.path.pop()


def _indented(pieces: Iterable[str]) -> str:
    return "".join(f"  {line}\n" for piece in pieces for line in piece.rstrip("\n").split("\n"))


def _with_commas(lines: Sequence[str]) -> list[str]:
    return [*(line + "," for line in lines[:-1]), *lines[-1:]]
