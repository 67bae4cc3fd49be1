"""`registry`: each value has the number of its schema in front. The column has the type of one version of a subject,
and what other versions wrote is read as that one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast

import pyarrow as pa
from pyspark.sql.types import DataType

from headwater.errors import ConfigError
from headwater.registry import formats as registry_formats
from headwater.registry.errors import InvalidPayload
from headwater.registry.json_schema.schema import JsonSchema
from headwater.registry.parsed import ParsedSchema
from headwater.registry.payloads import framing
from headwater.registry.payloads.protobuf import ProtobufCodec
from headwater.registry.protobuf.schema import ProtobufSchema
from headwater.serde.schemas import KnownSchema
from headwater.serde.serde import SerdeError
from headwater.spark.arrow import Array
from headwater.spark.formats.avro import AvroFormat
from headwater.spark.formats.decoding import Decoded, DecodeFailure, Decoder, Format, reason_of
from headwater.spark.formats.json import JsonFormat
from headwater.spark.formats.json_schema_types import struct_type
from headwater.spark.formats.protobuf import ProtobufFormat
from headwater.spark.formats.types import array
from headwater.spark.options.registry_options import RegistryColumn

# Schemas that wrote the values of a task.
_WRITERS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class RegistryFormat:
    column: RegistryColumn
    # Of the schema as which values are read.
    inner: Format

    def column_type(self) -> DataType | str | None:
        return self.inner.column_type()

    def check(self, column: str, datatype: DataType) -> None:
        self.inner.check(column, datatype)

    def decoder(self, datatype: DataType) -> "RegistryDecoder":
        return RegistryDecoder(self.column, self.inner, datatype)


def registry_format(column: RegistryColumn, option: str) -> RegistryFormat:
    parsed = column.known().parsed
    if column.message is not None and not isinstance(parsed, ProtobufSchema):
        raise ConfigError(f"subject '{column.subject}' has no messages: its schemas are {parsed.type.value}")
    if isinstance(parsed, ProtobufSchema):
        message = _message_name(parsed, column.message)
        return RegistryFormat(column, ProtobufFormat(option, _descriptors(parsed), message))
    if isinstance(parsed, JsonSchema):
        return RegistryFormat(column, JsonFormat(option, struct_type(option, parsed.source).json()))
    return RegistryFormat(column, AvroFormat(option, _resolved(parsed)))


class RegistryDecoder:
    def __init__(self, column: RegistryColumn, inner: Format, datatype: DataType) -> None:
        self._column = column
        self._inner = inner
        self._datatype = datatype
        self._decoder = inner.decoder(datatype)
        self.arrow_type = self._decoder.arrow_type
        # By the id of the schema that wrote.
        self._readers: dict[int, Callable[[bytes | memoryview], bytes | memoryview]] = {}
        self._decoders: dict[int, Decoder] = {}

    def decode(self, column: Array) -> Decoded:
        rows_by_id: dict[int, list[int]] = {}
        payloads: dict[int, list[bytes]] = {}
        failures: list[DecodeFailure] = []
        for row, data in enumerate(cast("list[bytes]", column.to_pylist())):
            try:
                schema_id, payload = self._read(data)
            except (InvalidPayload, SerdeError) as error:
                failures.append(DecodeFailure(row, reason_of(error)))
                continue
            rows_by_id.setdefault(schema_id, []).append(row)
            payloads.setdefault(schema_id, []).append(payload)
        bad = [each.row for each in failures]
        order: list[int] = []
        parts: list[Array] = []
        for schema_id, rows in rows_by_id.items():
            found = self._decoders[schema_id].decode(array(payloads[schema_id], pa.binary()))
            failures += [DecodeFailure(rows[each.row], each.reason) for each in found.failures]
            parts.append(found.values)
            order += rows
        if bad:
            parts.append(pa.nulls(len(bad), self.arrow_type))
            order += bad
        values = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
        if order != sorted(order):
            places = [0] * len(order)
            for place, row in enumerate(order):
                places[row] = place
            values = values.take(array(places, pa.int64()))
        return Decoded(values, sorted(failures))

    def _read(self, data: bytes) -> tuple[int, bytes]:
        framed = framing.read(data)
        if framed.schema_id is not None:
            schema_id = framed.schema_id
        else:
            assert framed.guid is not None, "a frame names a schema"
            schema_id = self._column.address.schemas().by_guid(framed.guid).id
        if schema_id not in self._readers:
            self._learn(schema_id)
        return schema_id, bytes(self._readers[schema_id](framed.payload))

    def _learn(self, schema_id: int) -> None:
        known = self._column.address.schemas().by_id(schema_id)
        if len(self._readers) >= _WRITERS_MAX:
            raise SerdeError(f"one task meets more than {_WRITERS_MAX} schemas")
        self._decoders[schema_id] = self._decoder_of(known)
        self._readers[schema_id] = self._reader_of(known)

    def _decoder_of(self, known: KnownSchema) -> Decoder:
        reader = self._column.known().type
        if known.type is not reader:
            raise SerdeError(f"schema {known.id} is {known.type.value}, the column is of {reader.value}")
        if isinstance(self._inner, AvroFormat) and known.id != self._column.schema_id:
            return self._inner.resolving_decoder(self._datatype, _resolved(known.parsed))
        return self._decoder

    def _reader_of(self, known: KnownSchema) -> Callable[[bytes | memoryview], bytes | memoryview]:
        if not isinstance(known.parsed, ProtobufSchema) or not isinstance(self._inner, ProtobufFormat):
            return lambda payload: payload
        written, wanted = known.parsed, self._inner.message

        def read(payload: bytes | memoryview) -> memoryview:
            indexes, message = framing.read_indexes(memoryview(payload))
            name = written.message_name(indexes)
            if name != wanted:
                raise InvalidPayload("", f"the message is {name}, the column is of {wanted}")
            return message

        return read


def _resolved(parsed: ParsedSchema) -> str:
    """Avro's text without references."""
    return registry_formats.in_form(parsed, "resolved")


def _message_name(parsed: ProtobufSchema, chosen: str | None) -> str:
    codec = ProtobufCodec(parsed)
    return (codec.message(framing.FIRST_MESSAGE) if chosen is None else codec.message_named(chosen)).full_name


def _descriptors(parsed: ProtobufSchema) -> bytes:
    """As a FileDescriptorSet with all imports."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

    codec = ProtobufCodec(parsed)
    name = codec.message(framing.FIRST_MESSAGE).full_name
    file: Any = codec.pool.pool.FindMessageTypeByName(name).file
    found: dict[str, FileDescriptorProto] = {}

    def add(each: Any) -> None:
        if each.name in found:
            return
        for needed in each.dependencies:
            add(needed)
        proto = FileDescriptorProto()
        each.CopyToProto(proto)
        found[each.name] = proto

    add(file)
    return FileDescriptorSet(file=found.values()).SerializeToString()
