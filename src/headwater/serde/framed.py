"""Values that follow a schema of a registry, whose number stands in front of them: Confluent's format."""

from collections.abc import Sequence
from typing import Any, Final

from headwater.client.registry.schema_registry import Schema
from headwater.registry.avro.schema import AvroSchema
from headwater.registry.errors import InvalidPayload, InvalidSchema
from headwater.registry.parsed import SchemaType
from headwater.registry.payloads import framing
from headwater.registry.payloads.codec import Codec, Form, codec_of
from headwater.registry.payloads.protobuf import MessageCodec, ProtobufCodec
from headwater.registry.protobuf.schema import ProtobufSchema
from headwater.serde.avro_resolution import AvroReader, AvroWriter
from headwater.serde.schemas import KnownSchema, Schemas
from headwater.serde.serde import Context, SerdeError

STRATEGIES: Final = ("topic", "record", "topic-record")


class Framed:
    """Writes with one schema, or with the latest version of the subject; reads what any schema wrote.

    Avro values are bare where they belong to a union, and have Python's types for logical types; Protobuf messages are
    dictionaries by Protobuf's JSON mapping, or objects of generated classes, which can only be written. `reader` is the
    schema as which Avro values are read: None is the one that wrote them, `latest` the latest version of the subject.
    With `is_json`, Avro values to be written are what JSON can say: bytes as text with a character for each, and the
    value of a union with or without the name of its type.
    """

    def __init__(
        self,
        schemas: Schemas,
        *,
        kind: SchemaType | None = None,
        schema: Schema | None = None,
        schema_id: int | None = None,
        subject: str | None = None,
        strategy: str = "topic",
        message: str | None = None,
        reader: Schema | str | None = None,
        registers: bool = True,
        normalize: bool = False,
        is_json: bool = False,
    ) -> None:
        if strategy not in STRATEGIES:
            raise SerdeError(f"the naming strategy is one of {', '.join(STRATEGIES)}, not {strategy!r}")
        if schema is not None and schema_id is not None:
            raise SerdeError("a schema and a schema's number exclude each other")
        self._schemas = schemas
        self._type = kind
        self._schema = schema
        self._schema_id = schema_id
        self._subject = subject
        self._strategy = strategy
        self._message = message
        self._reader = reader
        self._registers = registers
        self._normalize = normalize
        self._is_json = is_json

    # -- writing

    def serialize(self, value: Any, context: Context) -> bytes:
        known = self._writer(context)
        try:
            if isinstance(known.parsed, AvroSchema) and not self._is_json:
                root = known.parsed.root
                writer = self._schemas.compiled(("avro writer", known.parsed), lambda: AvroWriter(root))
                return framing.prefix(known.id) + writer.encode(value)
            codec = self._codec(known)
            if not isinstance(codec, ProtobufCodec):
                return framing.prefix(known.id) + codec.encode(value)
            message = _message(codec, self._message or _name_of(value))
            written = value.SerializeToString() if _name_of(value) else message.encode(value)
            return framing.prefix(known.id, message.indexes) + written
        except (InvalidPayload, InvalidSchema) as error:
            raise SerdeError(f"the value does not follow schema {known.id} {error}") from None

    def _writer(self, context: Context) -> KnownSchema:
        if self._schema_id is not None:
            known = self._schemas.by_id(self._schema_id)
        elif self._schema is None:
            known = self._schemas.latest(self._subject_of(context, None))
        else:
            schema = self._schema
            parsed = self._schemas.compiled(("parsed", schema), lambda: self._schemas.parse(schema))
            name = self._name(parsed)
            known = self._schemas.registered(
                self._subject_of(context, name), schema, registers=self._registers, normalize=self._normalize
            )
        if self._type is not None and known.type is not self._type:
            raise SerdeError(f"schema {known.id} is {known.type.value}, not {self._type.value}")
        return known

    def _name(self, parsed: Any) -> str | None:
        if isinstance(parsed, ProtobufSchema) and self._message is not None:
            codec = self._schemas.compiled(("codec", parsed), lambda: codec_of(parsed))
            assert isinstance(codec, ProtobufCodec), "that is Protobuf's codec"
            return _message(codec, self._message).full_name
        return parsed.name

    def _subject_of(self, context: Context, name: str | None) -> str:
        if self._subject is not None:
            return self._subject
        if self._strategy == "topic":
            return f"{context.topic}-{context.side}"
        if not name:
            raise SerdeError(f"the naming strategy {self._strategy!r} needs a schema with a name, or a subject")
        return name if self._strategy == "record" else f"{context.topic}-{name}"

    # -- reading

    def deserialize(self, data: bytes, context: Context) -> Any:
        header = next((value for name, value in context.headers if name == f"__{context.side}_schema_id"), None)
        try:
            framed = framing.read(data if header is None else header)
        except InvalidPayload as error:
            raise SerdeError(f"no schema's number stands in front of the {context.side}: {error.problem}") from None
        known = self._schemas.by_id(framed.schema_id) if framed.schema_id is not None else self._by_guid(framed.guid)
        payload = framed.payload
        try:
            codec = None if known.type is SchemaType.AVRO else self._codec(known)
            if isinstance(codec, ProtobufCodec):
                indexes, payload = framing.read_indexes(payload)
                codec = codec.message(indexes)
            content = payload if header is None else data
            return self._avro(known, context).decode(content) if codec is None else codec.decode(content)
        except (InvalidPayload, InvalidSchema) as error:
            raise SerdeError(f"the {context.side} does not follow schema {known.id} {error}") from None

    def _by_guid(self, guid: str | None) -> KnownSchema:
        assert guid is not None, "a frame names a schema"
        return self._schemas.by_guid(guid)

    def _avro(self, known: KnownSchema, context: Context) -> AvroReader:
        writer = known.parsed
        reader: Any = writer
        if self._reader == "latest":
            reader = self._schemas.latest(self._subject_of(context, writer.name)).parsed
        elif isinstance(self._reader, Schema):
            wanted = self._reader
            reader = self._schemas.compiled(("parsed", wanted), lambda: self._schemas.parse(wanted))
        if not isinstance(writer, AvroSchema) or not isinstance(reader, AvroSchema):
            raise SerdeError(f"what schema {known.id} wrote cannot be read as {reader.type.value}")
        roots = writer.root, reader.root
        return self._schemas.compiled(("avro reader", writer, reader), lambda: AvroReader(*roots))

    def _codec(self, known: KnownSchema) -> Codec:
        form = Form.JSON if self._is_json else Form.NATIVE
        return self._schemas.compiled(("codec", known.parsed, form), lambda: codec_of(known.parsed, form))


def _message(codec: ProtobufCodec, name: str | None) -> MessageCodec:
    try:
        return codec.message(framing.FIRST_MESSAGE) if name is None else codec.message_named(name)
    except InvalidSchema as error:
        raise SerdeError(str(error)) from None


def _name_of(value: Any) -> str | None:
    """The message that an object of a generated class is; None for a dictionary."""
    descriptor = getattr(value, "DESCRIPTOR", None)
    return getattr(descriptor, "full_name", None)


def has_frame(data: bytes, headers: Sequence[tuple[str, bytes | None]], side: str) -> bool:
    """Whether a schema's number may stand in front of the bytes, or in a header."""
    if any(name == f"__{side}_schema_id" and value for name, value in headers):
        return True
    return (len(data) >= 5 and data[0] == 0) or (len(data) >= 17 and data[0] == 1)
