"""Avro values that one schema wrote and another reads, beside fastavro; Python's types for logical types."""

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from io import BytesIO
from typing import Any
from uuid import UUID

import fastavro
import pytest

from headwater.registry import formats
from headwater.registry.avro.schema import AvroSchema
from headwater.registry.avro.types import AvroType
from headwater.registry.errors import InvalidPayload
from headwater.registry.parsed import Document, SchemaType
from headwater.serde.avro_resolution import AvroReader, AvroWriter


def root(schema: Any) -> AvroType:
    parsed = formats.parse(Document(SchemaType.AVRO, json.dumps(schema)))
    assert isinstance(parsed, AvroSchema)
    return parsed.root


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
LINKED = record(field("value", "int"), field("next", ["null", "Node"], default=None), name="Node")
RESOLVED = [
    # Promotions.
    ("int", "long", 7),
    ("int", "double", 7),
    ("long", "float", 7),
    ("float", "double", 0.5),
    ("string", "bytes", "é"),
    ("bytes", "string", b"abc"),
    # Unions.
    (["null", "int"], ["null", "long"], 7),
    (["null", "int"], ["null", "long"], None),
    ("int", ["null", "string", "long"], 7),
    (["int", "string"], "string", "x"),
    (["null", ENUM, {"type": "array", "items": "int"}], ["null", ENUM, {"type": "array", "items": "double"}], [1, 2]),
    # Records: fields that are gone, new, renamed, in another order.
    (record(field("a", "int"), field("b", "string")), record(field("b", "string")), {"a": 1, "b": "x"}),
    (record(field("a", "int")), record(field("n", ["null", "int"], default=None), field("a", "long")), {"a": 1}),
    (
        record(field("a", "int")),
        record(field("list", {"type": "array", "items": "int"}, default=[1]), field("a", "int")),
        {"a": 1},
    ),
    (record(field("a", "int")), record(field("b", "int", aliases=["a"])), {"a": 1}),
    (record(field("a", "int"), name="Old"), record(field("a", "int"), name="New", aliases=["Old"]), {"a": 1}),
    (LINKED, LINKED, {"value": 1, "next": {"value": 2, "next": None}}),
    # Enums, maps, fixed.
    (ENUM, {**ENUM, "symbols": ["B"], "default": "B"}, "A"),
    ({"type": "map", "values": "int"}, {"type": "map", "values": "long"}, {"k": 1}),
    ({"type": "fixed", "name": "F", "size": 2}, {"type": "fixed", "name": "F", "size": 2}, b"\xff\0"),
    ("double", "double", float("inf")),
]


@pytest.mark.parametrize(("writer", "reader", "value"), RESOLVED)
def test_values_are_resolved_as_by_fastavro(writer: Any, reader: Any, value: Any) -> None:
    payload = BytesIO()
    fastavro.schemaless_writer(payload, fastavro.parse_schema(writer), value)
    written = AvroWriter(root(writer)).encode(value)
    assert written == payload.getvalue()
    expected: Any = fastavro.schemaless_reader(
        BytesIO(written), fastavro.parse_schema(writer), fastavro.parse_schema(reader)
    )
    assert AvroReader(root(writer), root(reader)).decode(written) == expected


@pytest.mark.parametrize(
    ("writer", "reader", "value", "path"),
    [
        ("long", "int", 7, ""),
        ("string", "int", "x", ""),
        (["int", "string"], "int", "x", ""),
        (record(field("a", "int")), record(field("b", "int")), {"a": 1}, "/b"),
        (ENUM, {**ENUM, "symbols": ["B"]}, "A", ""),
        ({"type": "array", "items": ["int", "string"]}, {"type": "array", "items": "int"}, [1, "x"], "/1"),
        (record(field("a", "int"), name="One"), record(field("a", "int"), name="Two"), {"a": 1}, ""),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_path(writer: Any, reader: Any, value: Any, path: str) -> None:
    payload = AvroWriter(root(writer)).encode(value)
    with pytest.raises(InvalidPayload) as caught:
        AvroReader(root(writer), root(reader)).decode(payload)
    assert caught.value.path == path


LOGICAL = [
    ({"type": "int", "logicalType": "date"}, date(2026, 1, 31)),
    ({"type": "int", "logicalType": "time-millis"}, time(1, 2, 3, 4000)),
    ({"type": "long", "logicalType": "time-micros"}, time(1, 2, 3, 4)),
    ({"type": "long", "logicalType": "timestamp-millis"}, datetime(2026, 1, 31, 1, 2, 3, 4000, UTC)),
    ({"type": "long", "logicalType": "timestamp-micros"}, datetime(1969, 1, 31, 1, 2, 3, 4, UTC)),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, datetime(2026, 1, 31, 1, 2, 3, 4)),  # noqa: DTZ001
    ({"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 2}, Decimal("-12345678901234567890.12")),
    (
        {"type": "fixed", "name": "D", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 3},
        Decimal("-0.1"),
    ),
    ({"type": "string", "logicalType": "uuid"}, UUID("12345678-1234-5678-1234-567812345678")),
]


@pytest.mark.parametrize(("schema", "value"), LOGICAL)
def test_logical_types_are_pythons_as_in_fastavro(schema: Any, value: Any) -> None:
    nested = record(field("items", {"type": "array", "items": ["null", schema]}))
    for kind, given in ((schema, value), (nested, {"items": [None, value]})):
        payload = BytesIO()
        fastavro.schemaless_writer(payload, fastavro.parse_schema(kind), given)
        assert AvroWriter(root(kind)).encode(given) == payload.getvalue()
        assert AvroReader(root(kind), root(kind)).decode(payload.getvalue()) == given


def test_decimals_that_do_not_fit_are_refused() -> None:
    two_digits = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    small = {"type": "fixed", "name": "D", "size": 1, "logicalType": "decimal", "precision": 2, "scale": 0}
    for schema, value in ((two_digits, Decimal("1.234")), (small, Decimal(128)), (two_digits, Decimal("NaN"))):
        with pytest.raises(InvalidPayload):
            AvroWriter(root(schema)).encode(value)


def test_a_time_beyond_pythons_is_refused() -> None:
    kind = root({"type": "long", "logicalType": "timestamp-millis"})
    payload = AvroWriter(root("long")).encode(2**62)
    with pytest.raises(InvalidPayload, match="beyond"):
        AvroReader(kind, kind).decode(payload)
