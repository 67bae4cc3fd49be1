"""Each test of behaviour runs on the pure and, where it is there, on the compiled codec; the oracle is `records`."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater.errors import CorruptBatch
from headwater.protocol.batches import columns, records, rows
from headwater.protocol.batches.records import Record
from tests.protocol.batches.column_variants import DECODERS, numbers, rows_from, rows_of, strings, variant_name
from tests.protocol.batches.hostile_records import body, frame, hostile_payloads, varint
from tests.support.protocol.record_variants import CONTENTS

NOW = 1_700_000_000_000
OFFSET_MAX = 2**63 - 1
EVERYTHING = {"key": True, "value": True, "offset": True, "timestamp": True, "headers": True}


@pytest.fixture(params=DECODERS, ids=variant_name)
def codec(request: pytest.FixtureRequest) -> Any:
    return request.param


def payload_of(made: list[Record]) -> bytearray:
    return records.encode(made, 0, 0)


def refusal(error: Exception) -> tuple[Any, ...]:
    return type(error).__name__, str(error), getattr(error, "code", None), getattr(error, "index", None)


def test_the_extensions_are_compiled_together() -> None:
    assert records.COMPILED == columns.COMPILED == rows.COMPILED


@settings(max_examples=300)
@given(
    payload_and_count=hostile_payloads(),
    base=st.sampled_from([0, NOW, -1, 2**61, 2**61 + 1, -(2**63), 2**63 - 1]),
    append_time_ms=st.sampled_from([None, 5]),
)
@example(payload_and_count=(b"", 0), base=0, append_time_ms=None)
@example(payload_and_count=(b"", 2**31 - 1), base=0, append_time_ms=None)
@example(payload_and_count=(frame(body(headers=varint(1) + varint(-1) + varint(-1))), 1), base=0, append_time_ms=None)
@example(payload_and_count=(frame(body(headers=varint(1) + varint(0) + varint(1))), 1), base=0, append_time_ms=None)
@example(payload_and_count=(frame(body() + b"\x00"), 1), base=0, append_time_ms=None)
@example(payload_and_count=(frame(body(timestamp_delta=b"\xff" * 9 + b"\x02")), 1), base=0, append_time_ms=None)
def test_any_payload_gets_the_answer_that_records_get(
    payload_and_count: tuple[bytes, int], base: int, append_time_ms: int | None
) -> None:
    payload, count = payload_and_count
    # Bytes around the payload, which a walk beyond its end would read.
    view = memoryview(b"\x00" * 64 + payload + b"\x00" * 64)[64 : 64 + len(payload)]
    for base_offset, base_timestamp in ((base, 0), (0, base)):
        expected: Any
        try:
            expected = rows_from(records.decode(view, count, base_offset, base_timestamp, append_time_ms))
        except CorruptBatch as error:
            expected = refusal(error)
        for codec in DECODERS:
            builder = codec.ColumnBuilder(**EVERYTHING)
            got: Any
            try:
                builder.append(view, count, base_offset, base_timestamp, append_time_ms, -(2**63), OFFSET_MAX)
            except CorruptBatch as error:
                got = refusal(error)
                assert builder.row_count == 0
            else:
                got = rows_of(builder.take())
            if isinstance(expected, list):
                limit = (2**63 - 1) // 1000
                expected = [(*row[:3], max(min(row[3], limit), -limit), row[4]) for row in expected]
            assert got == expected


@given(
    batches=st.lists(st.lists(CONTENTS, min_size=1, max_size=6), max_size=5),
    asked=st.fixed_dictionaries(dict.fromkeys(EVERYTHING, st.booleans())),
)
def test_batches_are_collected_in_the_columns_that_are_asked_for(
    batches: list[list[Any]], asked: dict[str, bool]
) -> None:
    for codec in DECODERS:
        builder = codec.ColumnBuilder(**asked)
        made: list[Record] = []
        for contents in batches:
            batch_records = [Record(len(made) + index, *content) for index, content in enumerate(contents)]
            added = builder.append(payload_of(batch_records), len(contents), 0, 0, None, 0, OFFSET_MAX)
            assert added == len(contents)
            made += batch_records
        assert builder.row_count == len(made)

        built = builder.take()

        assert {name: getattr(built, name) is not None for name in EVERYTHING} == asked
        if asked["key"]:
            assert strings(built.key, len(made)) == [record.key for record in made]
        if asked["value"]:
            assert strings(built.value, len(made)) == [record.value for record in made]
        if asked["offset"]:
            assert numbers(built.offset, len(made)) == tuple(range(len(made)))
        if asked["timestamp"]:
            assert numbers(built.timestamp, len(made)) == tuple(1000 * record.timestamp for record in made)
        if all(asked.values()):
            assert rows_of(built) == rows_from(made)
        assert (builder.row_count, builder.byte_count, builder.take().row_count) == (0, 0, 0)


@given(
    before=st.lists(CONTENTS, min_size=1, max_size=20),
    refused=st.lists(CONTENTS, min_size=1, max_size=20),
    after=st.lists(CONTENTS, min_size=1, max_size=20),
)
def test_a_payload_that_is_refused_leaves_no_trace(before: list[Any], refused: list[Any], after: list[Any]) -> None:
    first = [Record(index, *content) for index, content in enumerate(before)]
    bad = payload_of([Record(index, *content) for index, content in enumerate(refused)])
    last = [Record(len(first) + index, *content) for index, content in enumerate(after)]
    for codec in DECODERS:
        builder = codec.ColumnBuilder(**EVERYTHING)
        builder.append(payload_of(first), len(first), 0, 0, None, 0, OFFSET_MAX)
        byte_count = builder.byte_count
        with pytest.raises(CorruptBatch):
            builder.append(bad + b"\x00", len(refused), 0, 0, None, 0, OFFSET_MAX)
        assert (builder.row_count, builder.byte_count) == (len(first), byte_count)
        builder.append(payload_of(last), len(last), 0, 0, None, 0, OFFSET_MAX)

        assert rows_of(builder.take()) == rows_from(first + last)


def test_offsets_outside_the_range_are_left_out(codec: Any) -> None:
    made = [Record(offset, NOW, None, b"%d" % offset, (("h", b"v"),)) for offset in (10, 11, 14, 15, 19)]
    builder = codec.ColumnBuilder(**EVERYTHING)

    assert builder.append(records.encode(made, 10, NOW), 5, 10, NOW, None, 11, 15) == 2
    assert builder.append(records.encode(made, 10, NOW), 5, 10, NOW, None, 20, 30) == 0

    assert rows_of(builder.take()) == rows_from(made[1:3])


def test_columns_stay_as_they_were_when_the_builder_goes_on(codec: Any) -> None:
    builder = codec.ColumnBuilder(value=True)
    builder.append(payload_of([Record(0, 0, None, b"first")]), 1, 0, 0, None, 0, 9)
    taken = builder.take()
    builder.append(payload_of([Record(0, 0, None, b"other")]), 1, 0, 0, None, 0, 9)

    assert strings(taken.value, 1) == [b"first"]
    assert strings(builder.take().value, 1) == [b"other"]


def test_many_rows_outgrow_every_buffer(codec: Any) -> None:
    made = [
        Record(
            index, index, None if index % 3 else b"k" * (index % 50), b"v" * (index % 90), (("h", None),) * (index % 3)
        )
        for index in range(5000)
    ]
    builder = codec.ColumnBuilder(**EVERYTHING)
    for start in range(0, len(made), 700):
        part = made[start : start + 700]
        builder.append(payload_of(part), len(part), 0, 0, None, 0, OFFSET_MAX)

    assert builder.byte_count > 5000 * 8
    assert rows_of(builder.take()) == rows_from(made)


def test_taken_columns_do_not_change_while_the_builder_continues(codec: Any) -> None:
    builder = codec.ColumnBuilder(**EVERYTHING)
    taken = []
    for number in range(8):
        made = [Record(0, 0, b"%d" % number, b"%d" % number * 5000, (("h", b"%d" % number),))]
        builder.append(payload_of(made), 1, 0, 0, None, 0, 9)
        taken.append((builder.take(), made))

    assert [rows_of(columns) for columns, _ in taken] == [rows_from(made) for _, made in taken]


def test_a_column_without_null_has_no_validity_bits(codec: Any) -> None:
    builder = codec.ColumnBuilder(key=True, value=True)
    builder.append(payload_of([Record(0, 0, b"", None), Record(1, 0, b"k", b"")]), 2, 0, 0, None, 0, 9)
    built = builder.take()

    assert built.key.validity is None
    assert [strings(built.key, 2), strings(built.value, 2)] == [[b"", b"k"], [None, b""]]


@pytest.mark.parametrize("key", [b"a\xff", b"\xff" * 700, "é".encode(), b"\xed\xa0\x80"])
def test_a_header_key_that_is_no_text_is_shown_with_replacements(codec: Any, key: bytes) -> None:
    headers = varint(2) + (varint(len(key)) + key + varint(1) + b"x") * 2
    payload = frame(body(headers=headers)) * 3
    builder = codec.ColumnBuilder(**EVERYTHING)
    builder.append(payload, 3, 0, 0, None, 0, 9)

    assert [row[4] for row in rows_of(builder.take())] == [((key.decode("utf-8", "replace"), b"x"),) * 2] * 3


def test_more_bytes_than_offsets_can_count_are_refused_before_they_are_read(codec: Any) -> None:
    payload = payload_of([Record(0, 0, None, b"v" * 50)])
    builder = codec.ColumnBuilder(value=True, bytes_max=2 * len(payload))
    for _ in range(2):
        builder.append(payload, 1, 0, 0, None, 0, 9)
    with pytest.raises(OverflowError, match="take"):
        builder.append(payload, 1, 0, 0, None, 0, 9)

    assert builder.take().row_count == 2
    assert builder.append(payload, 1, 0, 0, None, 0, 9) == 1


def test_header_keys_that_grow_when_shown_are_bounded_as_well(codec: Any) -> None:
    payload = frame(body(headers=varint(1) + varint(60) + b"\xff" * 60 + varint(-1)))
    builder = codec.ColumnBuilder(headers=True, bytes_max=100)
    with pytest.raises(OverflowError, match="header keys"):
        builder.append(payload, 1, 0, 0, None, 0, 9)

    assert builder.row_count == 0


def test_a_time_that_microseconds_cannot_express_becomes_the_last_that_they_can(codec: Any) -> None:
    builder = codec.ColumnBuilder(timestamp=True)
    for base in (2**61, -(2**61)):
        builder.append(frame(body()), 1, 0, base, None, 0, 9)
    builder.append(frame(body()), 1, 0, 0, 2**63 - 1, 0, 9)

    limit = (2**63 - 1) // 1000 * 1000
    assert numbers(builder.take().timestamp, 3) == (limit, -limit, limit)
