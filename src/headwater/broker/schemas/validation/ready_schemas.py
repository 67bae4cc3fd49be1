"""Schemas that are ready to check payloads: parsed and compiled. Bounded by the size of their texts."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from headwater.registry.parsed import ParsedSchema, SchemaType
from headwater.registry.payloads.codec import Codec, codec_of

# A schema that is ready takes some twenty times the memory of its text.
TEXT_LENGTH_TOTAL_MAX = 2 << 20


class ReadySchema:
    def __init__(self, parsed: ParsedSchema, text_length: int) -> None:
        self.parsed = parsed
        self.text_length = text_length
        self._codec: Codec | None = None

    @property
    def codec(self) -> Codec:
        if self._codec is None:
            self._codec = codec_of(self.parsed)
        return self._codec

    def message(self, indexes: Sequence[int]) -> Codec:
        """Protobuf: the codec of one message."""
        from headwater.registry.payloads.protobuf import ProtobufCodec  # noqa: PLC0415

        codec = self.codec
        assert isinstance(codec, ProtobufCodec), "only Protobuf has messages"
        return codec.message(indexes)


class SchemaKey(NamedTuple):
    """What makes a schema the same: an id can be given to another one where a registry is imported."""

    context: str
    id: int
    type: SchemaType
    guid: str


class ReadySchemas:
    """Used by the event loop and by threads: the dictionary is changed by single operations of the interpreter."""

    def __init__(self) -> None:
        self._schemas: OrderedDict[SchemaKey, ReadySchema] = OrderedDict()
        self._length = 0

    def find(self, key: SchemaKey) -> ReadySchema | None:
        return self._schemas.get(key)

    def add(self, key: SchemaKey, schema: ReadySchema) -> None:
        """The newest is kept, however large."""
        replaced = self._schemas.pop(key, None)
        if replaced is not None:
            self._length -= replaced.text_length
        while self._schemas and self._length + schema.text_length > TEXT_LENGTH_TOTAL_MAX:
            self._length -= self._schemas.popitem(last=False)[1].text_length
        self._schemas[key] = schema
        self._length += schema.text_length
