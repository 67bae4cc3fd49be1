from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.protocol.batches import records, rows
from headwater.protocol.batches.columns import ColumnBuilder, Columns
from headwater.protocol.batches.records import Record
from headwater.spark import arrow
from tests.support.protocol.record_variants import CONTENTS

NOW = 1_700_000_000_000
SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", arrow.TIMESTAMP),
        pa.field("headers", arrow.HEADERS),
    ]
)


def build(made: list[Record]) -> Columns:
    builder = ColumnBuilder(key=True, value=True, offset=True, timestamp=True, headers=True)
    builder.append(records.encode(made, 0, 0), len(made), 0, 0, None, 0, 2**62)
    return builder.take()


def encode(given_rows: pa.RecordBatch) -> list[Record]:
    encoded = rows.RowEncoder(arrow.columns_of(given_rows)).encode_rows(NOW, bytes_max=2**30, reserve=0)
    return records.decode(encoded.batch, encoded.row_count, 0, encoded.base_timestamp)


@given(contents=st.lists(CONTENTS, max_size=12), start=st.integers(0, 12))
def test_records_survive_the_round_trip_through_rows(contents: list[Any], start: int) -> None:
    made = [Record(index, *content) for index, content in enumerate(contents)]

    built = arrow.record_batch(build(made), SCHEMA, {"topic": "orders", "partition": 3})

    built.validate(full=True)
    assert built.drop_columns(["timestamp"]).to_pylist() == [
        {
            "key": record.key,
            "value": record.value,
            "topic": "orders",
            "partition": 3,
            "offset": record.offset,
            "headers": [{"key": key, "value": value} for key, value in record.headers] or None,
        }
        for record in made
    ]
    assert built["timestamp"].cast(pa.int64()).to_pylist() == [1000 * record.timestamp for record in made]
    kept = built.slice(min(start, len(made)))
    if kept.num_rows > 0:
        again = [Record(index, *content) for index, content in enumerate(contents[start:])]
        assert encode(kept) == again


def test_only_the_requested_columns_are_built() -> None:
    builder = ColumnBuilder(value=True)
    builder.append(records.encode([Record(0, 0, b"k", b"v")], 0, 0), 1, 0, 0, None, 0, 9)

    assert {name: array.to_pylist() for name, array in arrow.arrays(builder.take()).items()} == {"value": [b"v"]}


def test_arrow_holds_the_builders_memory_without_a_copy() -> None:
    columns = build([Record(0, 0, b"k", b"value")])
    assert columns.value is not None
    array = arrow.arrays(columns)["value"]

    assert array.buffers()[2].to_pybytes() == b"value"
    columns.value.data[0:1] = b"V"  # pyright: ignore[reportIndexIssue]
    assert array.to_pylist() == [b"Value"]
    with pytest.raises(BufferError):
        columns.value.data.obj.extend(b"more")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


@pytest.mark.parametrize(
    "arrow_type", [pa.binary(), pa.string(), pa.large_binary(), pa.large_string(), pa.binary_view(), pa.string_view()]
)
def test_bytes_and_text_of_any_width_are_written(arrow_type: pa.DataType) -> None:
    array = pa.array(["skipped", "é", None, "", "last"], arrow_type)
    given_rows = pa.record_batch({"value": array.slice(1), "key": array.slice(1)})

    expected = ["é".encode(), None, b"", b"last"]
    assert [(record.key, record.value) for record in encode(given_rows)] == list(zip(expected, expected, strict=True))


def test_a_dictionary_column_is_written_as_its_texts() -> None:
    given_rows = pa.record_batch({"value": pa.array(["a", "b", "a"]).dictionary_encode()})

    assert [record.value for record in encode(given_rows)] == [b"a", b"b", b"a"]


def test_columns_of_type_null_and_columns_that_are_missing_are_null() -> None:
    nulls = pa.nulls(2)
    given_rows = pa.record_batch({"key": nulls, "value": nulls, "timestamp": nulls, "headers": nulls})

    assert encode(given_rows) == [Record(0, NOW, None, None), Record(1, NOW, None, None)]
    assert encode(pa.record_batch({"other": nulls})) == [Record(0, NOW, None, None), Record(1, NOW, None, None)]


@pytest.mark.parametrize("arrow_type", [pa.timestamp("us", tz="UTC"), pa.timestamp("ms"), pa.timestamp("s", tz="UTC")])
def test_times_of_any_unit_are_written(arrow_type: pa.DataType) -> None:
    time = datetime.fromtimestamp(NOW // 1000, UTC)
    array = pa.array([None, time], pa.timestamp("us", tz="UTC")).cast(arrow_type)

    assert [record.timestamp for record in encode(pa.record_batch({"timestamp": array}))] == [NOW, NOW // 1000 * 1000]


@pytest.mark.parametrize("wide", [False, True])
def test_headers_of_sliced_lists_are_written(wide: bool) -> None:
    pairs = pa.struct([("key", pa.string()), ("value", pa.binary())])
    array = pa.array(
        [[{"key": "skipped", "value": b"x"}], None, [], [{"key": "a", "value": None}, {"key": "b", "value": b""}]],
        pa.large_list(pairs) if wide else pa.list_(pairs),
    )
    given_rows = pa.record_batch({"headers": array}).slice(1)

    assert [record.headers for record in encode(given_rows)] == [(), (), (("a", None), ("b", b""))]


def test_headers_of_lists_over_a_slice_are_written() -> None:
    pairs = pa.array(
        [{"key": name, "value": name.encode()} for name in ("skipped", "a", "b")], arrow.HEADERS.value_type
    )
    array = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pairs.slice(1))

    assert [record.headers for record in encode(pa.record_batch({"headers": array}))] == [
        (("a", b"a"),),
        (("b", b"b"),),
    ]


def test_a_null_header_is_refused() -> None:
    array = pa.array([[None]], arrow.HEADERS)
    with pytest.raises(ValueError, match="header is null"):
        arrow.columns_of(pa.record_batch({"headers": array}))


def test_lists_that_are_always_empty_need_no_element_type() -> None:
    array = pa.array([[]], pa.list_(pa.struct([("key", pa.null()), ("value", pa.null())])))

    assert arrow.columns_of(pa.record_batch({"headers": array})).headers is None


def test_partitions_pass_through_arrow() -> None:
    encoder = rows.RowEncoder(arrow.columns_of(pa.record_batch({"key": pa.array([b"21", None, b"abc"])})))
    partitions = arrow.int32_array(encoder.partition_rows(4, keyless=2))

    assert partitions.to_pylist() == [(-973932308 & 0x7FFFFFFF) % 4, 2, 479470107 % 4]
    assert bytes(arrow.int32_buffer(partitions.slice(1))) == bytes(arrow.int32_buffer(partitions))[4:]
    for wrong in (pa.array([1, None], pa.int32()), pa.array([1], pa.int64())):
        with pytest.raises(ValueError, match="32-bit"):
            arrow.int32_buffer(wrong)
