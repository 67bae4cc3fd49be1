"""Messages of a schema as the package `protobuf` knows them, for its JSON mapping."""

from base64 import b64decode
from importlib import import_module
from typing import Any, Final, cast

from headwater.registry.errors import InvalidPayload, InvalidSchema
from headwater.registry.payloads.codec import DEPTH_MAX
from headwater.registry.protobuf import descriptor
from headwater.registry.protobuf.resolution import Scope, is_well_known_file
from headwater.registry.protobuf.schema import ProtobufSchema
from headwater.registry.protobuf.tree import File

_SHOWN_LENGTH_MAX: Final = 300


class MessagePool:
    """Raises InvalidSchema, and ConfigError if the package is missing."""

    def __init__(self, schema: ProtobufSchema) -> None:
        try:
            from google.protobuf import descriptor_pool  # noqa: PLC0415
        except ModuleNotFoundError:
            raise InvalidSchema("Protobuf as JSON needs the package: pip install 'headwater[schemas]'") from None
        self._imported = schema.imported
        self._added: set[str] = set()
        self.pool = descriptor_pool.DescriptorPool()
        name = "payload.proto"
        while name in schema.imported:
            name = f"_{name}"
        self._add(name, schema.file)

    def _add(self, name: str, file: File) -> None:
        if name in self._added:
            return
        self._added.add(name)
        for each in (*file.imports, *file.public_imports):
            imported = self._imported.get(each)
            if imported is not None:
                self._add(each, imported)
            elif each not in self._added:
                self._added.add(each)
                self._add_serialized(each, _well_known(each))
        self._add_serialized(name, b64decode(descriptor.encode(file, Scope(file, self._imported), name)))

    def _add_serialized(self, name: str, serialized: bytes) -> None:
        try:
            self.pool.AddSerializedFile(serialized)
        except (TypeError, ValueError) as error:
            raise InvalidSchema(f"Protobuf does not take {name[:_SHOWN_LENGTH_MAX]}: {_short(error)}") from None

    def message(self, full_name: str) -> "MessageJson":
        from google.protobuf import message_factory  # noqa: PLC0415

        found = self.pool.FindMessageTypeByName(full_name)
        return MessageJson(message_factory.GetMessageClass(found), self.pool)


class MessageJson:
    """One message, to and from JSON."""

    def __init__(self, message_class: Any, pool: Any) -> None:
        self.message_class = message_class
        self._pool = pool

    def decode(self, payload: bytes | memoryview) -> Any:
        from google.protobuf import json_format  # noqa: PLC0415
        from google.protobuf.message import DecodeError  # noqa: PLC0415

        message = self.message_class()
        try:
            message.ParseFromString(bytes(payload))
            return json_format.MessageToDict(
                message, always_print_fields_with_no_presence=True, descriptor_pool=self._pool
            )
        except (DecodeError, json_format.Error, ValueError, TypeError, KeyError) as error:
            raise InvalidPayload("", _short(error)) from None

    def encode(self, value: Any) -> bytes:
        from google.protobuf import json_format  # noqa: PLC0415
        from google.protobuf.message import EncodeError  # noqa: PLC0415

        if not isinstance(value, dict):
            raise InvalidPayload("", "a message is an object")
        message = self.message_class()
        try:
            json_format.ParseDict(
                cast("dict[str, Any]", value), message, descriptor_pool=self._pool, max_recursion_depth=DEPTH_MAX
            )
            return message.SerializeToString(deterministic=True)
        except (EncodeError, json_format.Error, ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidPayload("", _short(error)) from None


def _well_known(name: str) -> bytes:
    """Files that come with Protobuf, as the package has them. The name is one of a list, never a client's own."""
    if not is_well_known_file(name):
        raise InvalidSchema(f"the schema imports {name[:_SHOWN_LENGTH_MAX]}, to which it does not refer")
    try:
        module = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    except ModuleNotFoundError:
        raise InvalidSchema(f"there is no Python package with {name}, which the schema imports") from None
    return module.DESCRIPTOR.serialized_pb


def _short(error: Exception) -> str:
    text = str(error) or type(error).__name__
    return text if len(text) <= _SHOWN_LENGTH_MAX else f"{text[:_SHOWN_LENGTH_MAX]}..."
