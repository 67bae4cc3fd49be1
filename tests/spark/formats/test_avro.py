"""Avro: values written by fastavro are read back, and anything else is one bad record."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
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
from headwater.spark.formats.avro import AvroFormat
from headwater.spark.formats.decoding import Decoded, decode

POINT = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "float"}]}
COUNTS = {"type": "map", "values": "int"}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "paid", "type": "boolean"},
        {"name": "data", "type": "bytes"},
        {"name": "from", "type": POINT},
        {"name": "to", "type": ["null", "Point"]},
        {"name": "path", "type": {"type": "array", "items": ["null", "Point"]}},
        {"name": "counts", "type": {"type": "map", "values": ["null", "long"]}},
        {"name": "places", "type": {"type": "map", "values": {"type": "array", "items": COUNTS}}},
    ],
}
INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
points = st.fixed_dictionaries({"x": INTS, "y": st.floats(width=32, allow_nan=False)})
counts = st.dictionaries(st.text(max_size=2), INTS, max_size=2)
orders = st.fixed_dictionaries(
    {
        "id": LONGS,
        "name": st.none() | st.text(max_size=5),
        "paid": st.booleans(),
        "data": st.binary(max_size=5),
        "from": points,
        "to": st.none() | points,
        "path": st.lists(st.none() | points, max_size=3),
        "counts": st.dictionaries(st.text(max_size=3), st.none() | LONGS, max_size=3),
        "places": st.dictionaries(st.text(max_size=3), st.lists(counts, max_size=2), max_size=2),
    }
)


def written(schema: Any, value: Any) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def logical(kind: str, meaning: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": meaning, **more}


def read(schema: Any, *values: bytes | None) -> Decoded:
    chosen = AvroFormat("value.schema", schema if isinstance(schema, str) else json.dumps(schema))
    datatype = chosen.column_type()
    chosen.check("value", datatype)
    found = decode(chosen.decoder(datatype), pa.array(values, pa.binary()))
    found.values.validate(full=True)
    assert found.values.type == to_arrow_type(datatype, timezone="UTC")
    return found


def as_arrow(value: Any) -> Any:
    """Maps are pairs in Arrow."""
    return value | {
        "counts": list(value["counts"].items()),
        "places": [(name, [list(each.items()) for each in places]) for name, places in value["places"].items()],
    }


@settings(max_examples=50)
@given(st.lists(st.none() | orders, max_size=4))
def test_values_written_by_fastavro_are_read_back(values: list[Any]) -> None:
    found = read(ORDER, *[None if each is None else written(ORDER, each) for each in values])
    assert not found.failures
    assert found.values.to_pylist() == [None if each is None else as_arrow(each) for each in values]


@given(st.binary(max_size=40))
def test_garbage_is_one_bad_record_or_a_datum(garbage: bytes) -> None:
    good = written(POINT, {"x": 1, "y": 2.0})
    found = read(POINT, good, garbage, good)
    assert [row for row, _ in found.failures] in ([], [1])
    assert found.values[0].as_py() == found.values[2].as_py() == {"x": 1, "y": 2.0}
    read(ORDER, garbage)


@pytest.mark.parametrize(
    ("schema", "value", "datatype", "expected"),
    [
        ("string", "a", StringType(), "a"),
        ("double", 0.5, DoubleType(), 0.5),
        ({"type": "int", "logicalType": "date"}, date(2026, 1, 31), DateType(), date(2026, 1, 31)),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            1_000,
            TimestampType(),
            datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        ),
        (
            {"type": "long", "logicalType": "timestamp-micros"},
            1_000,
            TimestampType(),
            datetime(1970, 1, 1, 0, 0, 0, 1_000, UTC),
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            Decimal("-1.50"),
            DecimalType(9, 2),
            Decimal("-1.50"),
        ),
        (
            {"type": "fixed", "name": "f", "size": 4, "logicalType": "decimal", "precision": 9},
            Decimal(7),
            DecimalType(9, 0),
            Decimal(7),
        ),
        ({"type": "fixed", "name": "f", "size": 2}, b"ab", BinaryType(), b"ab"),
        ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, "B", StringType(), "B"),
        ({"type": "string", "logicalType": "uuid"}, "not checked", StringType(), "not checked"),
        ({"type": "int", "logicalType": "time-millis"}, 5, IntegerType(), 5),
        (["null", "int", "long"], 5, LongType(), 5),
        (["float", "double"], 0.5, DoubleType(), 0.5),
        ({"type": "array", "items": "boolean"}, [True], ArrayType(BooleanType()), [True]),
        ({"type": "map", "values": "float"}, {"a": 0.5}, MapType(StringType(), FloatType()), [("a", 0.5)]),
    ],
)
def test_types(schema: Any, value: Any, datatype: DataType, expected: Any) -> None:
    assert AvroFormat("value.schema", json.dumps(schema)).column_type() == datatype
    raw = {"type": schema["type"]} if isinstance(value, int) and isinstance(schema, dict) else schema
    assert read(schema, written(raw, value)).values.to_pylist() == [expected]


def test_a_schema_may_be_the_name_of_a_primitive_type() -> None:
    assert read("long", written("long", 5)).values.to_pylist() == [5]


HUGE = written("long", 2**60)


@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        ("string", HUGE + b"abc", "it ends too early"),
        ("string", written("long", -5) + b"abc", "it ends too early"),
        ("string", b"\x04\xff\xff", "utf-8"),
        ("string", b"", "it ends too early"),
        ("int", HUGE, "too large"),
        ("long", b"\xff" * 30, "a number without end"),
        ("long", b"\x02\x02", "1 bytes are left over"),
        ({"type": "array", "items": "long"}, HUGE, "it ends too early"),
        (["null", "long"], b"\x0a", "branch"),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, b"\x0a", "symbol"),
        ({"type": "long", "logicalType": "timestamp-micros"}, written("long", 2**62), "out of range"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0},
            written("bytes", b"\x7f\xff"),
            "precision",
        ),
    ],
)
def test_hostile_bytes_are_bad_and_cost_little(schema: Any, value: bytes, said: str) -> None:
    found = read(schema, value)
    assert [row for row, _ in found.failures] == [0]
    assert said in found.failures[0].reason
    assert found.values.to_pylist() == [None]


def record(field: Any) -> Any:
    return {"type": "record", "name": "r", "fields": [{"name": "x", "type": field}]}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("nonsense", "no Avro schema"),
        ("{", "no Avro schema"),
        (record("unheard"), "no Avro schema"),
        (record("null"), "the type 'null' is not supported"),
        (record(["null", "r"]), "record 'r' holds itself"),
        (record(["string", "int"]), "a union of several types"),
        (record(["null", "string", "int", "long"]), "a union of several types"),
        (record({"type": "array", "items": {"type": "fixed", "name": "f", "size": 0}}), "'fixed' is not supported"),
        ({"type": "record", "name": "r", "fields": []}, "record 'r' has no fields"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 40}, "a decimal of 40 digits"),
    ],
)
def test_schemas_without_a_column_type_are_refused(schema: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        AvroFormat("value.schema", schema if isinstance(schema, str) else json.dumps(schema)).column_type()
    assert "'value.schema'" in str(caught.value)


def test_another_column_type_than_that_of_the_schema_is_refused() -> None:
    chosen = AvroFormat("value.schema", json.dumps(POINT))
    with pytest.raises(ConfigError, match="column 'value' is struct<x:int,y:float>, not struct<x:bigint>"):
        chosen.check("value", StructType([StructField("x", LongType())]))
