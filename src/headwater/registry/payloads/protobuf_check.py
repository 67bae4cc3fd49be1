"""Whether bytes are a message of a Protobuf schema: every field that the schema has is of its type, text is UTF-8, what
proto2 requires is there. Fields that the schema does not have are left alone, as in Protobuf, unless cut off."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from headwater.registry.errors import InvalidPayload, InvalidSchema
from headwater.registry.payloads.codec import DEPTH_MAX, too_deep
from headwater.registry.protobuf import wire
from headwater.registry.protobuf.resolution import Scope
from headwater.registry.protobuf.schema import ProtobufSchema
from headwater.registry.protobuf.tree import Field, File, Group, MapType, Message
from headwater.registry.protobuf.wire import WireField, WireType

_WIRE_TYPES: Final = {
    "double": WireType.FIXED64,
    "fixed64": WireType.FIXED64,
    "sfixed64": WireType.FIXED64,
    "float": WireType.FIXED32,
    "fixed32": WireType.FIXED32,
    "sfixed32": WireType.FIXED32,
    "string": WireType.BYTES,
    "bytes": WireType.BYTES,
}
_FIXED_SIZES: Final = {WireType.FIXED64: 8, WireType.FIXED32: 4}


class _Rule(NamedTuple):
    name: str
    # Shown where it is not kept.
    type: str
    wire_type: WireType
    is_repeated: bool
    # Of a message, a group or a map.
    inner: "Callable[[], MessageCheck] | None" = None

    def check(self, field: WireField, depth: int) -> None:
        value = field.value
        if field.type is not self.wire_type:
            is_packed = self.is_repeated and field.type is WireType.BYTES and self.wire_type is not WireType.BYTES
            if not is_packed or self.inner is not None:
                raise InvalidPayload("", f"the field is not {self.type}")
            assert isinstance(value, memoryview)
            self._check_packed(value)
        elif self.inner is not None:
            assert isinstance(value, memoryview)
            self.inner().run(value, depth + 1)
        elif self.type == "string":
            assert isinstance(value, memoryview)
            try:
                str(value, "utf-8")
            except UnicodeDecodeError:
                raise InvalidPayload("", "the text is not UTF-8") from None

    def _check_packed(self, value: memoryview) -> None:
        if self.wire_type is WireType.VARINT:
            position = 0
            while position < len(value):
                _, position = wire.read_varint(value, position)
        elif len(value) % _FIXED_SIZES[self.wire_type]:
            raise InvalidPayload("", f"the field is not a list of {self.type}")


class MessageCheck:
    def __init__(self) -> None:
        self.rules: dict[int, _Rule] = {}
        self.required: dict[int, str] = {}

    def run(self, data: memoryview, depth: int = 0) -> None:
        """Raises InvalidPayload."""
        if depth > DEPTH_MAX:
            raise too_deep()
        missing = dict(self.required)
        for field in wire.fields(data):
            rule = self.rules.get(field.tag)
            if rule is None:
                continue
            missing.pop(field.tag, None)
            try:
                rule.check(field, depth)
            except InvalidPayload as error:
                raise error.inside(rule.name) from None
        for name in missing.values():
            raise InvalidPayload(f"/{name}", "the field is required")


class MessageChecks:
    """Of all messages of a schema, by their full names; each is made when it is first needed."""

    def __init__(self, schema: ProtobufSchema) -> None:
        self._files: Mapping[str, File] = {"": schema.file, **schema.imported}
        self._imported = schema.imported
        self._scope = schema.scope()
        self._checks: dict[str, MessageCheck] = {}

    def of(self, full_name: str) -> MessageCheck:
        check = self._checks.get(full_name)
        if check is None:
            found = self._scope.types.get(full_name)
            if found is None or not isinstance(found.type, Message):
                raise InvalidSchema(f"the schema has no message {full_name[:200]}")
            made = MessageCheck()
            # Those that come with Protobuf are not looked into.
            file = self._files.get(found.file)
            if file is not None:
                scope = Scope(file, self._imported)
                scope.path = found.local_name.split(".")
                self._add_rules(made, found.type, scope)
            # Ready before others see it: threads share it.
            check = self._checks[full_name] = made
        return check

    def _add_rules(self, check: MessageCheck, message: Message, scope: Scope) -> None:
        for field in (*message.fields, *(each for oneof in message.oneofs for each in oneof.fields)):
            check.rules[field.tag] = self._rule(field, scope)
            if field.label == "required":
                check.required[field.tag] = field.name
        for group in (*message.groups, *(each for oneof in message.oneofs for each in oneof.groups)):
            check.rules[group.tag] = self._group_rule(group, scope)
            if group.label == "required":
                check.required[group.tag] = group.name.lower()

    def _rule(self, field: Field, scope: Scope) -> _Rule:
        kind = field.type
        if isinstance(kind, MapType):
            entry = MessageCheck()
            entry.rules[1] = self._rule(Field("key", 1, kind.key), scope)
            entry.rules[2] = self._rule(Field("value", 2, kind.value), scope)
            return _Rule(field.name, "a map", WireType.BYTES, True, lambda: entry)
        is_repeated = field.label == "repeated"
        found = None if _is_scalar(kind) else scope.find(kind)
        if found is not None and isinstance(found.type, Message):
            name = found.name
            return _Rule(field.name, f"a message {name}", WireType.BYTES, is_repeated, lambda: self.of(name))
        return _Rule(field.name, kind, _WIRE_TYPES.get(kind, WireType.VARINT), is_repeated)

    def _group_rule(self, group: Group, scope: Scope) -> _Rule:
        name = ".".join([*([scope.package] if scope.package else ()), *scope.path, group.name])
        return _Rule(group.name.lower(), "a group", WireType.GROUP, group.label == "repeated", lambda: self.of(name))


def _is_scalar(kind: str) -> bool:
    return kind in _WIRE_TYPES or kind in _VARINTS


_VARINTS: Final[Sequence[str]] = ("int32", "int64", "uint32", "uint64", "sint32", "sint64", "bool")
