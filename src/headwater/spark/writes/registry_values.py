"""Keys and values of any type as bytes, by a schema of a registry, whose number is put in front."""

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

import pyarrow as pa

from headwater.errors import HeadwaterError
from headwater.registry.parsed import SchemaType
from headwater.serde.framed import Framed
from headwater.serde.serde import Context, SerdeError
from headwater.spark.options.registry_options import RegistryColumn

Convert = Callable[[Any], Any]


class ValueRefused(HeadwaterError):
    """A value that does not follow its schema."""


def serialized(rows: pa.RecordBatch, schemas: Mapping[str, RegistryColumn]) -> pa.RecordBatch:
    for name, column in schemas.items():
        place = rows.schema.get_field_index(name)
        if place >= 0:
            values = cast("Any", rows.column(place))
            # Row by row: a codec takes one value after the other.
            written = _written(cast("Sequence[Any]", values.to_pylist()), name, values.type, column)
            rows = rows.set_column(place, pa.field(name, pa.binary()), pa.array(written, pa.binary()))
    return rows


def _written(values: Sequence[Any], name: str, kind: Any, column: RegistryColumn) -> list[bytes | None]:
    serde = Framed(column.address.schemas(), schema_id=column.schema_id, message=column.message)
    convert = _converter(kind, is_json=column.known().type is not SchemaType.AVRO)
    context = Context("", "key" if name == "key" else "value")
    written: list[bytes | None] = []
    for value in values:
        try:
            written.append(None if value is None else serde.serialize(convert(value), context))
        except SerdeError as error:
            raise ValueRefused(f"column {name!r}, subject '{column.subject}': {error}") from None
    return written


def _converter(kind: Any, *, is_json: bool) -> Convert:
    """From Arrow's values in Python to those of a serde: maps are dictionaries; where the format is JSON, or by
    Protobuf's mapping to it, bytes are base64, times are text, and fields that are null are left out."""
    if pa.types.is_struct(kind):
        fields: dict[str, Convert] = {
            each.name: _converter(each.type, is_json=is_json) for each in cast("Sequence[Any]", list(kind))
        }

        def struct(value: Any) -> dict[str, Any]:
            return {
                name: None if value[name] is None else convert(value[name])
                for name, convert in fields.items()
                if value[name] is not None or not is_json
            }

        return struct
    if pa.types.is_list(kind):
        item = _converter(kind.value_type, is_json=is_json)
        return lambda value: [None if each is None else item(each) for each in value]
    if pa.types.is_map(kind):
        item = _converter(kind.item_type, is_json=is_json)
        return lambda value: {key: None if each is None else item(each) for key, each in value}
    if not is_json:
        return _same
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return lambda value: b64encode(value).decode()
    if pa.types.is_timestamp(kind):
        return _time_text
    if pa.types.is_decimal(kind) or pa.types.is_date(kind):
        return str
    return _same


def _same(value: Any) -> Any:
    return value


def _time_text(value: datetime) -> str:
    moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return moment.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"
