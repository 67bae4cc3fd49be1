"""A Protobuf schema as the registry stores and compares it."""

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from headwater.registry.errors import InvalidSchema
from headwater.registry.limits import Budget, Limits
from headwater.registry.parsed import Document, ParsedSchema, Policy, SchemaType
from headwater.registry.protobuf import text
from headwater.registry.protobuf.comparison import Side, compare
from headwater.registry.protobuf.parser import check_tags
from headwater.registry.protobuf.parser import parse as parse_text
from headwater.registry.protobuf.resolution import Scope
from headwater.registry.protobuf.tree import File

_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


class ProtobufSchema:
    type: ClassVar = SchemaType.PROTOBUF

    def __init__(self, file: File, imported: Mapping[str, File], limits: Limits) -> None:
        self.file = file
        self.imported = imported
        self._limits = limits
        self.canonical = text.canonical(file)

    @property
    def name(self) -> str | None:
        return self.message_name((0,))

    def message_name(self, indexes: Sequence[int]) -> str | None:
        """The full name of a message that is given as records name it: by its index in the file, then the index in that
        message, and so on."""
        messages, names = self.file.messages, [self.file.package] if self.file.package else []
        for index in indexes:
            if not 0 <= index < len(messages):
                return None
            names.append(messages[index].name)
            messages = messages[index].messages
        return ".".join(names)

    def scope(self) -> Scope:
        return Scope(self.file, self.imported)

    def normalized(self) -> "ProtobufSchema":
        normal = ProtobufSchema(self.file, self.imported, self._limits)
        normal.canonical = text.normal(self.file, self.scope())
        return normal

    def equivalent(self, other: ParsedSchema) -> bool:
        return isinstance(other, ProtobufSchema) and self.canonical == other.canonical

    def check_types(self) -> None:
        """Refuse types that neither the file nor its imports define."""
        text.normal(self.file, self.scope())

    def check_fields(self) -> None:
        check_tags(self.file)

    def incompatibilities(self, previous: ParsedSchema, policy: Policy) -> Sequence[str]:  # noqa: ARG002
        assert isinstance(previous, ProtobufSchema)
        return compare(previous.side(), self.side(), self._limits)

    def side(self) -> Side:
        return Side(self.file, self.scope())

    def in_form(self, form: str) -> str:
        return self.serialized("default.proto") if form == "serialized" else self.canonical

    def serialized(self, name: str) -> str:
        """As a FileDescriptorProto in base64."""
        from headwater.registry.protobuf import descriptor  # noqa: PLC0415

        return descriptor.encode(self.file, self.scope(), name)


def parse(document: Document, limits: Limits) -> ProtobufSchema:
    budget = Budget(limits)
    imported: dict[str, File] = {}
    for name, source in document.resolved.items():
        try:
            imported[name] = _file(source, budget)
        except InvalidSchema as error:
            raise InvalidSchema(f"reference '{name}': {error}") from None
    schema = ProtobufSchema(_file(document.text, budget), imported, limits)
    check_tags(schema.file)
    schema.check_types()
    return schema


def _file(source: str, budget: Budget) -> File:
    # Some clients send a descriptor in base64, which has none of the signs that every .proto file has.
    if _BASE64.fullmatch(source.strip()):
        from headwater.registry.protobuf import descriptor  # noqa: PLC0415

        return descriptor.decode(source.strip(), budget)
    return parse_text(source, budget)
