"""JSON: rows decoded in bulk give the same results as one by one, and no value can hide another."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from headwater.errors import ConfigError
from headwater.spark.formats.decoding import Decoded, decode
from headwater.spark.formats.json import JsonDecoder, JsonFormat

ORDER = StructType(
    [
        StructField("id", LongType()),
        StructField("amount", DoubleType()),
        StructField("tags", ArrayType(StringType())),
        StructField("at", TimestampType()),
        StructField("place", StructType([StructField("zip", IntegerType()), StructField("day", DateType())])),
    ]
)
EMPTY = {"id": None, "amount": None, "tags": None, "at": None, "place": None}


def read(datatype: DataType, *values: bytes | None) -> Decoded:
    decoder = JsonFormat("value.schema", None).decoder(datatype)
    found = decode(decoder, pa.array(values, pa.binary()))
    found.values.validate(full=True)
    assert found.values.type == to_arrow_type(datatype, timezone="UTC")
    assert len(found.values) == len(values)
    return found


def read_field(datatype: DataType, text: str) -> Any:
    """One field of a document that is decoded alone and, beside others, in bulk."""
    schema = StructType([StructField("x", datatype)])
    document = f'{{"x": {text}}}'.encode()
    alone = read(schema, document)
    beside = read(schema, *[b"{}"] * 600, document, *[b"{}"] * 600)
    assert beside.values[600].as_py() == alone.values[0].as_py()
    assert [reason for _, reason in beside.failures] == [reason for _, reason in alone.failures]
    singly = JsonDecoder(schema)._singly(pa.array([document], pa.binary()))
    assert (singly.values.to_pylist(), singly.failures) == (alone.values.to_pylist(), alone.failures)
    return alone.failures[0].reason if alone.failures else alone.values[0].as_py()["x"]


scalars = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5)
moments = st.sampled_from(
    ["2026-01-31T12:00:00Z", "2026-01-31 12:00:00", "2026-01-31", "2026-01-31T12:00:00.123456789+05:30", "soon", "12"]
)
documents = st.fixed_dictionaries(
    {},
    optional={
        "id": st.integers(-(2**63) - 1, 2**63) | scalars,
        "amount": st.floats() | scalars,
        "tags": st.lists(scalars, max_size=3) | scalars,
        "at": moments | scalars,
        "place": st.fixed_dictionaries({}, optional={"zip": st.integers() | scalars, "day": moments}) | scalars,
        "unknown": st.recursive(scalars, lambda inner: st.lists(inner, max_size=3), max_leaves=5),
    },
)
values = (
    documents.map(json.dumps).map(str.encode)
    | documents.map(lambda each: json.dumps(each, indent=2)).map(str.encode)
    | st.binary(max_size=12)
    | st.sampled_from([b"", b" ", b"null", b"{}{}", b"{}\n{}", b'{"id":1', b',"amount":2}', b"}{", b"[]", b"{", b"}"])
)


def shown(values: pa.StructArray) -> list[str]:
    """Rows as text, in which NaN equals itself. Times are numbers, because Python has none before the year 1."""
    columns = [each.cast(pa.int64()) if pa.types.is_timestamp(each.type) else each for each in values.flatten()]
    rows = zip(values.is_valid().to_pylist(), *(each.to_pylist() for each in columns), strict=True)
    return list(map(repr, rows))


@given(st.lists(st.none() | values, max_size=20))
def test_neighbouring_rows_do_not_change_the_result_of_a_row(rows: list[bytes | None]) -> None:
    together = read(ORDER, *rows)
    alone = [read(ORDER, row) for row in rows]

    assert shown(together.values) == [text for each in alone for text in shown(each.values)]
    assert dict(together.failures) == {row: each.failures[0].reason for row, each in enumerate(alone) if each.failures}


@given(st.lists(values, min_size=1, max_size=8))
def test_bulk_decoding_gives_the_same_values_as_single_decoding(rows: list[bytes]) -> None:
    decoder = JsonDecoder(ORDER)
    column = pa.array(rows, pa.binary())
    try:
        bulk = decoder._in_bulk(column)
    except ValueError:
        return
    singly = decoder._singly(column)
    assert singly.failures == []
    assert bulk.equals(singly.values)


def test_documents_may_hold_newlines_and_unknown_fields() -> None:
    found = read(ORDER, b'{\n "id": 1,\n "more": {"a": [1, 2]}\n}\n', b"{}", b' {"tags": ["a", null]}')
    assert found.values.to_pylist() == [EMPTY | {"id": 1}, EMPTY, EMPTY | {"tags": ["a", None]}]
    assert not found.failures


@pytest.mark.parametrize(
    "hostile",
    [
        [b"{}{}", b""],
        [b"", b"{}{}"],
        [b'{"id":1}{"id":2}', b" "],
        [b'{"id":1', b',"amount":2}', b"{}{}"],
        [b'{"tags":["}', b'{"]}', b"{}{}"],
        [b'{"x":{}', b'{"y":1}}', b"{}{}"],
    ],
)
def test_malformed_rows_that_are_valid_when_concatenated_are_bad(hostile: list[bytes]) -> None:
    found = read(ORDER, b'{"id":7}', *hostile, b'{"id":8}')
    assert [row for row, _ in found.failures] == list(range(1, len(hostile) + 1))
    assert found.values[0].as_py()["id"] == 7
    assert found.values[-1].as_py()["id"] == 8


def test_a_few_bad_rows_do_not_spoil_the_others() -> None:
    rows = [b'{"id": %d}' % row for row in range(5_000)]
    rows[17] = b"{"
    rows[4_998] = b'{"id": "x"}'

    found = read(ORDER, *rows)

    assert [row for row, _ in found.failures] == [17, 4_998]
    assert found.failures[1].reason == 'id: expected bigint, found "x"'
    assert found.values.null_count == 2
    assert found.values[4_999].as_py()["id"] == 4_999


def test_null_is_not_bad() -> None:
    found = read(ORDER, None, b"null", b'{"id": 1}', None)
    assert found.values.to_pylist() == [None, None, EMPTY | {"id": 1}, None]
    assert not found.failures
    assert read(ORDER, None, None).values.to_pylist() == [None, None]


@pytest.mark.parametrize(
    ("datatype", "text", "expected"),
    [
        (BooleanType(), "true", True),
        (ByteType(), "-128", -128),
        (ShortType(), "32767", 32767),
        (IntegerType(), "-2147483648", -(2**31)),
        (LongType(), "9223372036854775807", 2**63 - 1),
        (FloatType(), "0.5", 0.5),
        (DoubleType(), "5", 5.0),
        (DoubleType(), "Infinity", float("inf")),
        (DoubleType(), '"-INF"', float("-inf")),
        (DoubleType(), "1e-999", 0.0),
        (StringType(), '"a\\u0000\\ud83d\\ude00"', "a\0\N{GRINNING FACE}"),
        (StringType(), "12", "12"),
        (StringType(), '{"a": [1, true]}', '{"a":[1,true]}'),
        (BinaryType(), '"AQL/"', b"\x01\x02\xff"),
        (BinaryType(), '""', b""),
        (DateType(), '"2026-01-31"', date(2026, 1, 31)),
        (TimestampType(), '"2026-01-31T12:00:00Z"', datetime(2026, 1, 31, 12, tzinfo=UTC)),
        (TimestampType(), '"2026-01-31 12:00:00.5"', datetime(2026, 1, 31, 12, 0, 0, 500_000, UTC)),
        (TimestampType(), '"2026-01-31T12:00:00.123456789+01:00"', datetime(2026, 1, 31, 11, 0, 0, 123_456, UTC)),
        (TimestampType(), '"2026-01-31"', datetime(2026, 1, 31, tzinfo=UTC)),
        (TimestampType(), "86400", datetime(1970, 1, 2, tzinfo=UTC)),
        (DecimalType(10, 2), "12.5", Decimal("12.50")),
        (DecimalType(10, 2), '"12.5"', Decimal("12.50")),
        (DecimalType(10, 2), "12.345", Decimal("12.35")),
        (DecimalType(38, 0), "12345678901234567890123456789012345678", Decimal(12345678901234567890123456789012345678)),
        (ArrayType(LongType()), "[1, null]", [1, None]),
        (ArrayType(DecimalType(5, 1)), "[1.5]", [Decimal("1.5")]),
        (MapType(StringType(), LongType()), '{"a": 1, "b": null}', [("a", 1), ("b", None)]),
        (MapType(StringType(), DecimalType(5, 1)), '{"a": 1.5}', [("a", Decimal("1.5"))]),
        (
            ArrayType(StructType([StructField("y", BinaryType())])),
            '[{"y": "AQ=="}, null, {}]',
            [{"y": b"\1"}, None, {"y": None}],
        ),
        (LongType(), "null", None),
    ],
)
def test_types(datatype: DataType, text: str, expected: Any) -> None:
    assert read_field(datatype, text) == expected


def test_a_bare_nan_is_read_as_spark_reads_it() -> None:
    found = read(StructType([StructField("x", DoubleType())]), b'{"x": NaN}', b'{"x": "NaN"}')
    assert [str(each["x"]) for each in found.values.to_pylist()] == ["nan", "nan"]


@pytest.mark.parametrize(
    ("datatype", "text", "said"),
    [
        (BooleanType(), "1", "true or false"),
        (ByteType(), "128", "does not fit into tinyint"),
        (LongType(), "9223372036854775808", "does not fit into bigint"),
        (LongType(), "1.0", "expected bigint, found 1.0"),
        (LongType(), '"1"', "expected bigint"),
        (LongType(), "true", "expected bigint"),
        (LongType(), "9" * 5000, "digits"),
        (DoubleType(), "1e999", "does not fit into double"),
        (DoubleType(), "9" * 400, "does not fit into double"),
        (DoubleType(), '"five"', "a number"),
        (FloatType(), "1e300", "does not fit into float"),
        (StringType(), '"\\ud800"', "surrogate"),
        (BinaryType(), '"!"', "base64"),
        (BinaryType(), "1", "base64"),
        (DateType(), '"2026-02-30"', "a date"),
        (DateType(), '"\\ud800"', "a date"),
        (DateType(), "20260131", "a date"),
        (TimestampType(), '"soon"', "a time"),
        (TimestampType(), '"2026-01-31T99:00"', "a time"),
        (TimestampType(), '"\\ud800"', "a time"),
        (TimestampType(), "9" * 18, "a time"),
        (DecimalType(4, 2), "100", "does not fit into decimal(4,2)"),
        (DecimalType(38, 38), "5", "does not fit into decimal(38,38)"),
        (DecimalType(4, 2), "1e999999", "does not fit into decimal(4,2)"),
        (DecimalType(4, 2), '"1_0"', "expected decimal(4,2)"),
        (DecimalType(4, 2), "NaN", "expected decimal(4,2)"),
        (StructType([StructField("d", DecimalType(4, 2)), StructField("f", DoubleType())]), '{"f": 1e999}', "double"),
        (ArrayType(LongType()), "{}", "an array"),
        (MapType(StringType(), LongType()), "[]", "an object"),
        (MapType(StringType(), LongType()), '{"\\ud800": 1}', "surrogate"),
        (StructType([StructField("y", LongType())]), "[]", "x: expected an object"),
        (StructType([StructField("y", LongType())]), '{"y": false}', "x: y: expected bigint, found false"),
    ],
)
def test_a_value_that_does_not_fit_its_type_is_a_bad_record(datatype: DataType, text: str, said: str) -> None:
    reason = read_field(datatype, text)
    assert said in reason
    assert len(reason) <= 300


@pytest.mark.parametrize(
    ("datatype", "text", "expected"),
    [
        (ArrayType(LongType()), b"[1, 2]", [1, 2]),
        (StringType(), b'"a"', "a"),
        (MapType(StringType(), LongType()), b'{"a": 1}', [("a", 1)]),
    ],
)
def test_a_value_need_not_be_an_object(datatype: DataType, text: bytes, expected: Any) -> None:
    assert read(datatype, text).values.to_pylist() == [expected]


@pytest.mark.parametrize("depth", [100, 1_000, 100_000])
def test_deep_nesting_is_bounded(depth: int) -> None:
    deep = b'{"id": 1, "tags": ' + b"[" * depth + b"]" * depth + b"}"
    assert [row for row, _ in read(ORDER, b"{}", deep).failures] in ([1], [])
    assert read(ORDER, b'{"id": 1, "x": ' + b"[" * depth).failures
    decimals = StructType([StructField("d", DecimalType(4, 2))])
    assert read(decimals, b'{"d": ' + b"[" * depth).failures


@pytest.mark.parametrize(
    "hostile", [b"\xff\xfe{}", b'{"id": 1, "x": "\xff"}', '{"id": 1}'.encode("utf-16"), b"\xef\xbb\xbf{}"]
)
def test_text_that_is_not_utf8_is_a_bad_record(hostile: bytes) -> None:
    assert [row for row, _ in read(ORDER, b"{}", hostile, b"{}").failures] == [1]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("id BIGINT, tags ARRAY<STRING>", "STRUCT<id BIGINT, tags ARRAY<STRING>>"),
        ("array ARRAY<INT>", "STRUCT<array ARRAY<INT>>"),
        ("STRUCT<id: INT>", "STRUCT<id: INT>"),
        (" map<string, int> ", "map<string, int>"),
        ("DECIMAL(10, 2)", "DECIMAL(10, 2)"),
        ("STRING", "STRING"),
        (ORDER.json(), ORDER),
        (None, None),
    ],
)
def test_a_schema_is_ddl_or_json(schema: str | None, expected: str | DataType | None) -> None:
    assert JsonFormat("value.schema", schema).column_type() == expected


def test_non_nullable_fields_of_a_json_schema_become_nullable() -> None:
    strict = StructType([StructField("a", ArrayType(LongType(), containsNull=False), nullable=False)])
    assert JsonFormat("value.schema", strict.json()).column_type() == StructType(
        [StructField("a", ArrayType(LongType()))]
    )


@pytest.mark.parametrize("schema", ["", "{", "{}", '{"type":"struct","fields":[]}', '{"type":"record"}', '"string"'])
def test_an_invalid_schema_is_refused(schema: str) -> None:
    with pytest.raises(ConfigError, match=r"option 'value\.schema'"):
        JsonFormat("value.schema", schema).column_type()


@pytest.mark.parametrize(
    ("datatype", "said"),
    [
        (TimestampNTZType(), "value.x is timestamp_ntz, which typed reads do not support"),
        (MapType(LongType(), LongType()), "the keys of a map are strings in JSON"),
        (ArrayType(MapType(LongType(), LongType())), "the keys of a map are strings in JSON"),
        (MapType(ArrayType(LongType()), LongType()), "a map whose keys are array<bigint>"),
        (MapType(StringType(), MapType(LongType(), LongType())), "the keys of a map are strings in JSON"),
        (ArrayType(LongType(), containsNull=False), r"value.x\[\] is NOT NULL"),
        (StructType([]), "a struct without fields"),
        (StructType([StructField("y", LongType()), StructField("y", LongType())]), "two fields of the same name"),
    ],
)
def test_an_unsupported_type_is_refused_when_a_read_is_planned(datatype: DataType, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        JsonFormat("value.schema", None).check("value", StructType([StructField("x", datatype)]))
