"""Parses .proto files: proto2, proto3 and editions."""

from typing import Final

from headwater.registry.errors import InvalidSchema
from headwater.registry.limits import Budget
from headwater.registry.protobuf.tokens import Tokens
from headwater.registry.protobuf.tree import (
    SCALARS,
    TAG_MAX,
    Aggregate,
    Constant,
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

_LABELS: Final = ("optional", "required", "repeated")
_ENUM_NUMBER_MAX: Final = 2**31 - 1
_CLOSED_BY: Final = {"{": "}", "<": ">"}


def parse(text: str, budget: Budget) -> File:
    return _Parser(Tokens(text), budget).file()


class _Parser:
    def __init__(self, tokens: Tokens, budget: Budget) -> None:
        self._tokens = tokens
        self._budget = budget

    def file(self) -> File:
        file, tokens = File(), self._tokens
        while not tokens.is_at_end:
            match tokens.word() if not tokens.skip(";") else ";":
                case "syntax":
                    tokens.expect("=")
                    file.syntax = tokens.text()
                    if file.syntax not in ("proto2", "proto3"):
                        raise tokens.error(f"unexpected syntax: {file.syntax}")
                    tokens.expect(";")
                case "edition":
                    tokens.expect("=")
                    file.edition = tokens.text()
                    tokens.expect(";")
                case "package":
                    file.package = tokens.word()
                    tokens.expect(";")
                case "import":
                    is_public = tokens.skip("public")
                    if not is_public and not tokens.is_text():
                        tokens.word()
                    (file.public_imports if is_public else file.imports).append(tokens.text())
                    tokens.expect(";")
                case "option":
                    file.options.append(self._option_statement())
                case "message":
                    file.messages.append(self._message(1))
                case "enum":
                    file.enums.append(self._enum(1))
                case "extend":
                    file.extends.append(self._extend(1))
                case "service":
                    file.services.append(self._service())
                case ";":
                    pass
                case other:
                    raise tokens.error(f"unexpected '{other[:40]}'")
        return file

    def _message(self, depth: int) -> Message:
        self._budget.take(depth)
        tokens = self._tokens
        message = Message(tokens.name())
        tokens.expect("{")
        while not tokens.skip("}"):
            self._member(message, depth)
        return message

    def _member(self, message: Message, depth: int) -> None:
        tokens = self._tokens
        if tokens.skip(";"):
            return
        # A keyword may be the name of a type, too: then the name of the field follows, and a number.
        match tokens.next:
            case "message":
                tokens.take()
                message.messages.append(self._message(depth + 1))
            case "enum":
                tokens.take()
                message.enums.append(self._enum(depth + 1))
            case "extend":
                tokens.take()
                message.extends.append(self._extend(depth + 1))
            case "oneof":
                tokens.take()
                message.oneofs.append(self._oneof(message, depth + 1))
            case "option":
                tokens.take()
                message.options.append(self._option_statement())
            case "reserved":
                tokens.take()
                message.reserved.append(self._reserved())
            case "extensions":
                tokens.take()
                message.extensions.append(self._extensions())
            case _:
                label = tokens.take() if tokens.next in _LABELS else ""
                if tokens.next == "group":
                    tokens.take()
                    message.groups.append(self._group(message, label, depth + 1))
                else:
                    message.fields.append(self._field(label))

    def _field(self, label: str) -> Field:
        tokens = self._tokens
        kind = self._type()
        name = tokens.name()
        tokens.expect("=")
        field = Field(name, self._tag(), kind, label)
        field.options = self._bracketed()
        tokens.expect(";")
        self._budget.take(1)
        return field

    def _type(self) -> str | MapType:
        tokens = self._tokens
        name = tokens.word()
        if name != "map" or not tokens.skip("<"):
            return name
        key = tokens.word()
        tokens.expect(",")
        value = tokens.word()
        tokens.expect(">")
        if key not in SCALARS - {"bytes", "double", "float"}:
            raise tokens.error(f"'{key}' cannot be the key of a map")
        return MapType(key, value)

    def _tag(self) -> int:
        tag = self._tokens.number()
        if not 1 <= tag <= TAG_MAX:
            raise self._tokens.error(f"tag value must be between 1 and {TAG_MAX}, not {tag}")
        return tag

    def _oneof(self, message: Message, depth: int) -> OneOf:
        tokens = self._tokens
        oneof = OneOf(tokens.name())
        tokens.expect("{")
        while not tokens.skip("}"):
            if tokens.skip(";"):
                continue
            if tokens.next == "option":
                tokens.take()
                oneof.options.append(self._option_statement())
            elif tokens.next == "group":
                tokens.take()
                oneof.groups.append(self._group(message, "", depth))
            else:
                oneof.fields.append(self._field(""))
        return oneof

    def _group(self, owner: Message, label: str, depth: int) -> Group:
        tokens = self._tokens
        self._budget.take(depth)
        name = tokens.name()
        tokens.expect("=")
        group = Group(name, self._tag(), label)
        self._bracketed()
        # What a group contains is a message inside of the one that it belongs to.
        body = Message(name)
        tokens.expect("{")
        while not tokens.skip("}"):
            self._member(body, depth)
        group.fields = body.fields
        owner.messages += body.messages
        owner.enums += body.enums
        return group

    def _extend(self, depth: int) -> Extend:
        tokens = self._tokens
        extend = Extend(tokens.word())
        body = Message("")
        tokens.expect("{")
        while not tokens.skip("}"):
            self._member(body, depth)
        extend.fields = body.fields
        return extend

    def _enum(self, depth: int) -> EnumType:
        self._budget.take(depth)
        tokens = self._tokens
        enum = EnumType(tokens.name())
        tokens.expect("{")
        while not tokens.skip("}"):
            if tokens.skip(";"):
                continue
            word = tokens.name()
            if word == "option" and tokens.next != "=":
                enum.options.append(self._option_statement())
            elif word == "reserved" and tokens.next != "=":
                enum.reserved.append(self._reserved(-_ENUM_NUMBER_MAX - 1, _ENUM_NUMBER_MAX))
            else:
                tokens.expect("=")
                constant = Constant(word, tokens.number())
                if not -_ENUM_NUMBER_MAX - 1 <= constant.tag <= _ENUM_NUMBER_MAX:
                    raise tokens.error(f"the number of {word[:40]} has more than 32 bits")
                constant.options = self._bracketed()
                tokens.expect(";")
                enum.constants.append(constant)
                self._budget.take(1)
        return enum

    def _reserved(self, lowest: int = 1, highest: int = TAG_MAX) -> Reserved:
        tokens = self._tokens
        values: list[Range | str] = []
        while True:
            if tokens.is_text():
                values.append(tokens.text())
            elif tokens.next[0].isalpha() or tokens.next[0] == "_":
                # Editions write names without quotation marks.
                values.append(tokens.name())
            else:
                values.append(self._range(lowest, highest))
            if not tokens.skip(","):
                tokens.expect(";")
                return tuple(values)

    def _range(self, lowest: int, highest: int) -> Range:
        tokens = self._tokens
        first = last = tokens.number()
        if tokens.skip("to"):
            last = highest if tokens.skip("max") else tokens.number()
        if not lowest <= first <= last <= highest:
            raise tokens.error(f"{first} to {last} is no range between {lowest} and {highest}")
        return first, last

    def _extensions(self) -> Extensions:
        tokens = self._tokens
        ranges = [self._range(1, TAG_MAX)]
        while tokens.skip(","):
            ranges.append(self._range(1, TAG_MAX))
        extensions = Extensions(tuple(ranges), self._bracketed())
        tokens.expect(";")
        return extensions

    def _service(self) -> Service:
        tokens = self._tokens
        service = Service(tokens.name())
        tokens.expect("{")
        while not tokens.skip("}"):
            if tokens.skip(";"):
                continue
            match tokens.word():
                case "option":
                    service.options.append(self._option_statement())
                case "rpc":
                    service.rpcs.append(self._rpc())
                case other:
                    raise tokens.error(f"unexpected '{other[:40]}'")
        return service

    def _rpc(self) -> Rpc:
        tokens = self._tokens
        self._budget.take(1)
        name = tokens.name()
        streams_request, request = self._streamed()
        tokens.expect("returns")
        streams_response, response = self._streamed()
        rpc = Rpc(name, request, response, streams_request, streams_response)
        if tokens.skip("{"):
            while not tokens.skip("}"):
                if not tokens.skip(";"):
                    tokens.expect("option")
                    rpc.options.append(self._option_statement())
        else:
            tokens.expect(";")
        return rpc

    def _streamed(self) -> tuple[bool, str]:
        tokens = self._tokens
        tokens.expect("(")
        word = tokens.word()
        is_stream = word == "stream" and tokens.next != ")"
        if is_stream:
            word = tokens.word()
        tokens.expect(")")
        return is_stream, word

    # -- options

    def _option_statement(self) -> Option:
        option = self._option(1)
        self._tokens.expect(";")
        return option

    def _bracketed(self) -> list[Option]:
        tokens = self._tokens
        if not tokens.skip("["):
            return []
        options = [self._option(1)]
        while tokens.skip(","):
            options.append(self._option(1))
        tokens.expect("]")
        return options

    def _option(self, depth: int) -> Option:
        tokens = self._tokens
        name = ""
        while not tokens.skip("="):
            if tokens.skip("("):
                name += f"({tokens.word()})"
                tokens.expect(")")
            else:
                name += tokens.word()
        if not name:
            raise tokens.error("an option has a name")
        return Option(name, self._value(depth))

    def _value(self, depth: int) -> Value:
        self._budget.take(depth)
        tokens = self._tokens
        if tokens.is_text():
            return tokens.text()
        if tokens.next in _CLOSED_BY:
            return self._aggregate(depth)
        if tokens.skip("["):
            values: list[Value] = []
            while not tokens.skip("]"):
                values.append(self._value(depth + 1))
                if not tokens.skip(","):
                    tokens.expect("]")
                    break
            return tuple(values)
        sign = "-" if tokens.skip("-") else ""
        tokens.skip("+")
        word = tokens.take()
        if not (word[0].isalnum() or word[0] in "_."):
            raise tokens.error(f"a value is expected, not '{word[:40]}'")
        return Word(sign + word)

    def _aggregate(self, depth: int) -> Aggregate:
        tokens = self._tokens
        closing = _CLOSED_BY[tokens.take()]
        entries: list[tuple[str, Value]] = []
        while not tokens.skip(closing):
            if tokens.skip("["):
                key = f"[{tokens.word()}"
                while tokens.skip("/"):
                    key += f"/{tokens.word()}"
                key += "]"
                tokens.expect("]")
            else:
                key = tokens.name()
            has_colon = tokens.skip(":")
            if not has_colon and tokens.next not in _CLOSED_BY:
                raise tokens.error("':' is expected")
            entries.append((key, self._value(depth + 1)))
            if not tokens.skip(","):
                tokens.skip(";")
        return Aggregate(tuple(entries))


def check_tags(file: File) -> None:
    """Refuse numbers and names that a message or an enum has twice."""
    left = list(file.messages)
    enums = list(file.enums)
    for message in left:
        left += message.messages
        enums += message.enums
        fields = [*message.fields, *(field for oneof in message.oneofs for field in oneof.fields)]
        groups = [*message.groups, *(group for oneof in message.oneofs for group in oneof.groups)]
        _check_unique(message.name, [(each.name, each.tag) for each in (*fields, *groups)])
    for enum in enums:
        # Constants may share a number if the enum allows aliases.
        _check_unique(enum.name, [(each.name, number) for number, each in enumerate(enum.constants)])


def _check_unique(owner: str, members: list[tuple[str, int]]) -> None:
    names: set[str] = set()
    tags: dict[int, str] = {}
    for name, tag in members:
        if tag in tags:
            raise InvalidSchema(f"multiple fields share tag {tag} in {owner}: {tags[tag]}, {name}")
        if name in names:
            raise InvalidSchema(f"{owner} has '{name}' twice")
        names.add(name)
        tags[tag] = name
