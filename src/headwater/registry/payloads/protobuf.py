"""Protobuf messages: checked field by field against the schema; to and from JSON, by the rules of Protobuf's JSON
mapping, with the package `protobuf`."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

from headwater.registry.errors import InvalidPayload, InvalidSchema
from headwater.registry.payloads.framing import FIRST_MESSAGE
from headwater.registry.payloads.protobuf_check import MessageCheck, MessageChecks
from headwater.registry.payloads.protobuf_pool import MessageJson, MessagePool
from headwater.registry.protobuf.schema import ProtobufSchema
from headwater.registry.protobuf.tree import Message

_SHOWN_NAME_LENGTH_MAX: Final = 200


class MessageCodec:
    """Of one message of a file."""

    def __init__(self, name: str, indexes: Sequence[int], schema: "ProtobufCodec") -> None:
        # With the package.
        self.full_name = name
        # Where it stands in its file: of the messages around it, and its own.
        self.indexes = tuple(indexes)
        self._schema = schema

    @cached_property
    def _check(self) -> MessageCheck:
        return self._schema.checks.of(self.full_name)

    @cached_property
    def _json(self) -> MessageJson:
        return self._schema.pool.message(self.full_name)

    def validate(self, payload: bytes | memoryview) -> None:
        self._check.run(memoryview(payload))

    def decode(self, payload: bytes | memoryview) -> Any:
        """By Protobuf's JSON mapping. Fields without presence are there with their defaults."""
        return self._json.decode(payload)

    def encode(self, value: Any) -> bytes:
        return self._json.encode(value)


class ProtobufCodec:
    """Of a file. As a codec, that of its first message."""

    def __init__(self, schema: ProtobufSchema) -> None:
        self._file = schema.file
        self._schema = schema
        self._by_indexes: dict[tuple[int, ...], MessageCodec] = {}

    @cached_property
    def checks(self) -> MessageChecks:
        return MessageChecks(self._schema)

    @cached_property
    def pool(self) -> MessagePool:
        return MessagePool(self._schema)

    def message(self, indexes: Sequence[int]) -> MessageCodec:
        """Raises InvalidPayload, for a payload names its message so."""
        key = tuple(indexes)
        found = self._by_indexes.get(key)
        if found is None:
            found = self._by_indexes[key] = MessageCodec(self._name_at(key), key, self)
        return found

    def message_named(self, name: str) -> MessageCodec:
        """With or without the package. Raises InvalidSchema."""
        package = self._file.package
        wanted = name.removeprefix(".")
        local = wanted.removeprefix(f"{package}.") if package else wanted
        messages, indexes = self._file.messages, list[int]()
        for part in local.split("."):
            index = next((index for index, each in enumerate(messages) if each.name == part), None)
            if index is None:
                raise InvalidSchema(f"the schema has no message {name[:_SHOWN_NAME_LENGTH_MAX]}")
            indexes.append(index)
            messages = messages[index].messages
        return self.message(indexes)

    def _name_at(self, indexes: Sequence[int]) -> str:
        messages: Sequence[Message] = self._file.messages
        names = [self._file.package] if self._file.package else []
        for index in indexes:
            if not 0 <= index < len(messages):
                raise InvalidPayload("", f"the schema has no message at {list(indexes)}")
            names.append(messages[index].name)
            messages = messages[index].messages
        return ".".join(names)

    def validate(self, payload: bytes | memoryview) -> None:
        self.message(FIRST_MESSAGE).validate(payload)

    def decode(self, payload: bytes | memoryview) -> Any:
        return self.message(FIRST_MESSAGE).decode(payload)

    def encode(self, value: Any) -> bytes:
        return self.message(FIRST_MESSAGE).encode(value)
