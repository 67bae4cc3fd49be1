"""Payloads as values and back: what a codec of any format does, and the codec of a schema.

Payloads and values come from clients: what they cost is bounded by the bytes that are there, and they nest no deeper
than `DEPTH_MAX`.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Any, Final, Protocol, cast

from headwater.registry.avro.schema import AvroSchema
from headwater.registry.errors import InvalidPayload
from headwater.registry.json_schema.schema import JsonSchema
from headwater.registry.limits import bounded
from headwater.registry.parsed import ParsedSchema
from headwater.registry.protobuf.schema import ProtobufSchema

# Values in values.
DEPTH_MAX: Final = 100


class Form(Enum):
    """How a value is written in Python, where the formats leave a choice (Avro)."""

    # Bytes as bytes, the value of a union as it is.
    NATIVE = "native"
    # What JSON can say: bytes as text, one character for each; the value of a union with the name of its type.
    JSON = "json"


class Codec(Protocol):
    """Thread-safe: a call leaves no state behind. All methods raise InvalidPayload."""

    def validate(self, payload: bytes | memoryview) -> None: ...

    def decode(self, payload: bytes | memoryview) -> Any: ...

    def encode(self, value: Any) -> bytes: ...


@bounded
def codec_of(schema: ParsedSchema, form: Form = Form.NATIVE) -> Codec:
    """The codec of payloads without framing. That of a Protobuf schema is for its first message; it knows the others.

    Raises InvalidSchema.
    """
    # Late imports: each format has libraries of its own.
    if isinstance(schema, AvroSchema):
        from headwater.registry.payloads.avro import AvroCodec  # noqa: PLC0415

        return AvroCodec(schema.root, form)
    if isinstance(schema, JsonSchema):
        from headwater.registry.payloads.json_schema import JsonSchemaCodec  # noqa: PLC0415

        return JsonSchemaCodec(schema)
    from headwater.registry.payloads.protobuf import ProtobufCodec  # noqa: PLC0415

    assert isinstance(schema, ProtobufSchema)
    return ProtobufCodec(schema)


def check_depth(value: Any) -> None:
    """Of a value that was read from JSON."""
    # A list, not recursion: the value may nest more deeply than Python calls may.
    left: list[tuple[Any, int]] = [(value, 0)]
    while left:
        each, depth = left.pop()
        if depth > DEPTH_MAX:
            raise too_deep()
        inner: Iterable[Any] = ()
        if isinstance(each, dict):
            inner = cast("dict[str, Any]", each).values()
        elif isinstance(each, list):
            inner = cast("list[Any]", each)
        left += [(item, depth + 1) for item in inner if isinstance(item, dict | list)]


def too_deep() -> InvalidPayload:
    return InvalidPayload("", f"values are nested more than {DEPTH_MAX} deep")
