"""`protobuf`: each value is one message. An absent field is null if the schema tracks presence, else its default."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headwater.errors import ConfigError
from headwater.spark.arrow import Array
from headwater.spark.formats.decoding import Decoded, DecodeFailure, build_values, reason_of
from headwater.spark.formats.proto_schema import find_message
from headwater.spark.formats.types import ArrowType, array, arrow_type, check_readable, check_same

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

# By the type numbers of descriptors. An unsigned type maps to one that can hold all of its values.
_SIMPLE: Final[dict[int, DataType]] = {
    1: DoubleType(),
    2: FloatType(),
    3: LongType(),
    4: DecimalType(20, 0),
    5: IntegerType(),
    6: DecimalType(20, 0),
    7: LongType(),
    8: BooleanType(),
    9: StringType(),
    12: BinaryType(),
    13: LongType(),
    14: StringType(),
    15: IntegerType(),
    16: LongType(),
    17: IntegerType(),
    18: LongType(),
}
_TIMESTAMP: Final = "google.protobuf.Timestamp"

# pyarrow's stubs lack the types of this method.
_map_array = cast("Any", pa.MapArray.from_arrays)

Build = Callable[[Sequence[Any]], Array]


@dataclass(frozen=True, slots=True)
class ProtobufFormat:
    """`descriptors` is a FileDescriptorSet, so that tasks need no compiler."""

    option: str
    descriptors: bytes
    message: str | None

    def column_type(self) -> DataType:
        return self._struct(self._descriptor(), ())

    def check(self, column: str, datatype: DataType) -> None:
        check_readable(column, datatype)
        check_same(column, datatype, self.column_type())

    def decoder(self, datatype: DataType) -> "ProtobufDecoder":
        return ProtobufDecoder(self._descriptor(), arrow_type(datatype))

    def _descriptor(self) -> "Descriptor":
        return find_message(self.option, self.descriptors, self.message)

    def _struct(self, message: "Descriptor", within: tuple[str, ...]) -> StructType:
        name = message.full_name
        if name in within:
            raise ConfigError(f"option {self.option!r}: message {name} holds itself, which no column can")
        if not message.fields:
            raise ConfigError(f"option {self.option!r}: message {name} has no fields")
        return StructType([StructField(field.name, self._type(field, (*within, name))) for field in message.fields])

    def _type(self, field: "FieldDescriptor", within: tuple[str, ...]) -> DataType:
        if _is_map(field):
            key, value = _entry(field)
            return MapType(self._single(key, within), self._single(value, within))
        return ArrayType(self._single(field, within)) if field.is_repeated else self._single(field, within)

    def _single(self, field: "FieldDescriptor", within: tuple[str, ...]) -> DataType:
        message = field.message_type
        if message is None:
            return _SIMPLE[field.type]
        return TimestampType() if message.full_name == _TIMESTAMP else self._struct(message, within)


def _is_map(field: "FieldDescriptor") -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _entry(field: "FieldDescriptor") -> tuple["FieldDescriptor", "FieldDescriptor"]:
    """The fields for the key and the value of a map."""
    assert field.message_type is not None, "a map is a list of messages"
    return field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]


class ProtobufDecoder:
    def __init__(self, message: "Descriptor", kind: ArrowType) -> None:
        from google.protobuf.message_factory import GetMessageClass

        self.arrow_type = kind
        self._parse: Callable[[bytes], Any] = GetMessageClass(message).FromString
        self._build = _messages(message, kind)

    def decode(self, column: Array) -> Decoded:
        data = cast("list[bytes]", column.to_pylist())
        messages, failures = self._parse_all(data)
        found = build_values(messages, self._build)
        return Decoded(found.values, sorted([*failures, *found.failures]))

    def _parse_all(self, data: list[bytes]) -> tuple[list[Any], list[DecodeFailure]]:
        from google.protobuf.message import DecodeError

        try:
            return list(map(self._parse, data)), []
        except DecodeError:
            messages: list[Any] = []
            failures: list[DecodeFailure] = []
            for row, each in enumerate(data):
                try:
                    messages.append(self._parse(each))
                except DecodeError as error:
                    messages.append(None)
                    failures.append(DecodeFailure(row, reason_of(error)))
            return messages, failures


# The builders work column by column: a list of messages becomes one list per field, so that no row becomes a dict.


def _messages(message: "Descriptor", kind: ArrowType) -> Build:
    from google.protobuf.message_factory import GetMessageClass

    blank = GetMessageClass(message)()
    fields = list(kind)
    columns = [_field(each, field.type) for each, field in zip(message.fields, fields, strict=True)]

    def build(messages: Sequence[Any]) -> Array:
        mask = None
        if None in messages:
            mask = array([each is None for each in messages], pa.bool_())
            messages = [blank if each is None else each for each in messages]
        return pa.StructArray.from_arrays([column(messages) for column in columns], fields=fields, mask=mask)

    return build


def _field(field: "FieldDescriptor", kind: ArrowType) -> Build:
    """A builder that takes messages and returns the column of one of their fields."""
    get = attrgetter(field.name)
    name = field.name
    if _is_map(field):
        return _map(field, kind)
    if field.is_repeated:
        elements = _values(field, kind.value_type)

        def lists(messages: Sequence[Any]) -> Array:
            found = list(map(get, messages))
            return pa.ListArray.from_arrays(_offsets(found), elements(list(chain.from_iterable(found))), type=kind)

        return lists
    values = _values(field, kind)
    if field.has_presence:
        return lambda messages: values([get(each) if each.HasField(name) else None for each in messages])
    return lambda messages: values(list(map(get, messages)))


def _map(field: "FieldDescriptor", kind: ArrowType) -> Build:
    get = attrgetter(field.name)
    key, value = _entry(field)
    keys, values = _values(key, kind.key_type), _values(value, kind.item_type)

    def maps(messages: Sequence[Any]) -> Array:
        found = list(map(get, messages))
        pairs = [pair for each in found for pair in each.items()]
        return _map_array(
            _offsets(found), keys([pair[0] for pair in pairs]), values([pair[1] for pair in pairs]), type=kind
        )

    return maps


def _offsets(found: Sequence[Any]) -> Array:
    return array([0, *accumulate(map(len, found))], pa.int32())


def _values(field: "FieldDescriptor", kind: ArrowType) -> Build:
    """A builder that takes the field's values, with None for an absent one."""
    if field.enum_type is not None:
        return _names(field.enum_type)
    message = field.message_type
    if message is None:
        return lambda values: array(values, kind)
    if message.full_name == _TIMESTAMP:
        return lambda values: array([None if each is None else _microseconds(each) for each in values], kind)
    return _messages(message, kind)


def _names(enum: "EnumDescriptor") -> Build:
    """A builder for the names of an enum. A number without a name, perhaps of a newer schema, stays a number."""
    names = {number: value.name for number, value in enum.values_by_number.items()}
    return lambda values: array([None if each is None else names.get(each, str(each)) for each in values], pa.string())


def _microseconds(timestamp: Any) -> int:
    return timestamp.seconds * 1_000_000 + timestamp.nanos // 1_000
