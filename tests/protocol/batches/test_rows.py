"""Each test of behaviour runs on the pure and, where it is there, on the compiled codec; the oracles are records, batch
and the client's partitioner."""

import struct
from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.protocol.batches import batch, records
from headwater.protocol.batches.columns import BytesColumn, Columns, HeadersColumn, LongColumn
from headwater.protocol.batches.compression import Codec
from headwater.protocol.batches.records import Record
from headwater.protocol.partitioner import partition_for_key
from tests.protocol.batches.column_variants import ENCODERS, variant_name
from tests.support.protocol.record_variants import CONTENTS, FIELDS, TIMESTAMPS

NOW = 1_700_000_000_000
UNLIMITED = 2**31 - 1


@pytest.fixture(params=ENCODERS, ids=variant_name)
def codec(request: pytest.FixtureRequest) -> Any:
    return request.param


def int32(*numbers: int) -> bytes:
    return struct.pack(f"={len(numbers)}i", *numbers)


def bits(flags: list[bool]) -> bytes:
    packed = bytearray((len(flags) + 7) // 8)
    for index, flag in enumerate(flags):
        packed[index >> 3] |= flag << (index & 7)
    return bytes(packed)


def strings(values: list[bytes | None], start: int = 0) -> BytesColumn:
    """As a slice that leaves out `start` rows in front."""
    padded: list[bytes | None] = [b"skipped"] * start + values
    offsets = array("i", [0])
    for value in padded:
        offsets.append(offsets[-1] + len(value or b""))
    validity = bits([value is not None for value in padded]) if None in padded else None
    return BytesColumn(validity, offsets.tobytes(), b"".join(value or b"" for value in padded), start)


def columns_of(contents: list[Any], start: int = 0) -> Columns:
    """Columns of (timestamp, key, value, headers); a slice where `start` is not 0."""
    flat = [header for *_, headers in contents for header in headers]
    list_offsets = array("i", [0] * (start + 1))
    for *_, headers in contents:
        list_offsets.append(list_offsets[-1] + len(headers))
    return Columns(
        row_count=len(contents),
        key=strings([key for _, key, _, _ in contents], start),
        value=strings([value for _, _, value, _ in contents], start),
        timestamp=LongColumn(None, array("q", [0] * start + [1000 * row[0] for row in contents]).tobytes(), start),
        headers=HeadersColumn(
            None,
            list_offsets.tobytes(),
            strings([key.encode() for key, _ in flat], start),
            strings([value for _, value in flat], start),
            start,
        ),
    )


def records_of(contents: list[Any]) -> list[Record]:
    return [Record(index, *content) for index, content in enumerate(contents)]


@given(contents=st.lists(CONTENTS, min_size=1, max_size=12), start=st.integers(0, 9), data=st.data())
def test_selected_rows_have_the_bytes_of_their_records(contents: list[Any], start: int, data: st.DataObject) -> None:
    chosen = data.draw(st.none() | st.lists(st.integers(0, len(contents) - 1), min_size=1, max_size=12))
    selected = contents if chosen is None else [contents[row] for row in chosen]
    for codec in ENCODERS:
        encoded = codec.RowEncoder(columns_of(contents, start)).encode_rows(
            NOW, bytes_max=UNLIMITED, selection=None if chosen is None else int32(*chosen), reserve=3
        )

        assert encoded.batch[:3] == bytes(3)
        assert encoded.batch[3:] == records.encode(records_of(selected), 0, selected[0][0])
        assert encoded[1:] == (len(selected), selected[0][0], max(row[0] for row in selected))


@given(
    contents=st.lists(CONTENTS, min_size=1, max_size=6),
    codec_number=st.sampled_from(Codec),
    options=st.just({})
    | st.fixed_dictionaries(
        {
            "producer_id": st.integers(0, 2**40),
            "producer_epoch": st.integers(0, 100),
            "base_sequence": st.integers(0, 2**31 - 1),
            "transactional": st.booleans(),
        }
    ),
)
def test_a_completed_batch_is_the_one_that_is_built_from_records(
    contents: list[Any], codec_number: Codec, options: dict[str, Any]
) -> None:
    expected = batch.build(records_of(contents), codec=codec_number, **options)
    for codec in ENCODERS:
        encoded = codec.RowEncoder(columns_of(contents)).encode_rows(NOW, bytes_max=UNLIMITED)

        sealed = encoded.batch
        batch.complete(
            sealed,
            record_count=encoded.row_count,
            base_timestamp=encoded.base_timestamp,
            max_timestamp=encoded.max_timestamp,
            codec=codec_number,
            **options,
        )

        header = batch.read_header(sealed)
        batch.verify_produced(sealed, header)
        assert batch.read_records(sealed, header, 2**20) == records_of(contents)
        if codec_number == Codec.NONE:
            assert sealed == expected
        else:
            expected_header = batch.read_header(expected)
            assert header[5:] == expected_header[5:], "all that does not depend on a compressor's mood"


@given(contents=st.lists(CONTENTS, min_size=1, max_size=12), bytes_max=st.integers(0, 600))
def test_batches_are_cut_at_their_limit_and_hold_every_row_once(contents: list[Any], bytes_max: int) -> None:
    for codec in ENCODERS:
        encoder = codec.RowEncoder(columns_of(contents))
        start = 0
        while start < len(contents):
            encoded = encoder.encode_rows(NOW, bytes_max=bytes_max, start=start, reserve=0)
            stop = start + encoded.row_count
            assert encoded.batch == records.encode(records_of(contents[start:stop]), 0, contents[start][0])
            assert len(encoded.batch) <= bytes_max or encoded.row_count == 1
            if stop < len(contents):
                more = records.encode(records_of(contents[start : stop + 1]), 0, contents[start][0])
                assert len(more) > bytes_max, "a batch is as full as it can be"
            start = stop


def test_a_batch_grows_to_whatever_its_rows_need(codec: Any) -> None:
    contents = [(NOW + index, b"k", b"v" * (7 * index), ()) for index in range(60)]

    encoded = codec.RowEncoder(columns_of(contents)).encode_rows(NOW, bytes_max=UNLIMITED, reserve=0)

    assert encoded.batch == records.encode(records_of(contents), 0, NOW)


@given(keys=st.lists(FIELDS, max_size=20), partition_count=st.integers(1, 1000), start=st.integers(0, 9))
def test_partitions_are_those_of_the_client(keys: list[bytes | None], partition_count: int, start: int) -> None:
    expected = [7 if key is None else partition_for_key(key, partition_count) for key in keys]
    backwards = int32(*reversed(range(len(keys))))
    for codec in ENCODERS:
        encoder = codec.RowEncoder(Columns(len(keys), key=strings(keys, start)))

        assert encoder.partition_rows(partition_count, keyless=7) == int32(*expected)
        assert encoder.partition_rows(partition_count, keyless=7, selection=backwards) == int32(*reversed(expected))


# The hashes are from the tests of Kafka's Java client.
@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_partition_is_the_java_clients(codec: Any, key: bytes, signed: int) -> None:
    encoder = codec.RowEncoder(Columns(1, key=strings([key])))

    assert encoder.partition_rows(1009) == int32((signed & 0x7FFFFFFF) % 1009)


def test_rows_without_any_key_are_told_by_minus_one(codec: Any) -> None:
    assert codec.RowEncoder(Columns(2)).partition_rows(5) == int32(-1, -1)


@given(partitions=st.lists(st.integers(0, 4), max_size=40), data=st.data())
def test_rows_are_grouped_in_their_order(partitions: list[int], data: st.DataObject) -> None:
    selection = data.draw(st.none() | st.permutations(range(100)).map(lambda rows: rows[: len(partitions)]))
    numbered = list(range(len(partitions))) if selection is None else selection
    for codec in ENCODERS:
        order, groups = codec.group_rows(int32(*partitions), 5, None if selection is None else int32(*selection))

        sorted_rows = struct.unpack(f"={len(partitions)}i", order)
        assert {group.partition: list(sorted_rows[group.start : group.stop]) for group in groups} == {
            partition: [row for row, own in zip(numbered, partitions, strict=True) if own == partition]
            for partition in sorted(set(partitions))
        }


@given(times=st.lists(st.none() | TIMESTAMPS, min_size=1, max_size=10))
def test_a_row_without_timestamp_gets_the_time_of_writing(times: list[int | None]) -> None:
    data = array("q", [0 if time is None else 1000 * time + 999 for time in times]).tobytes()
    column = LongColumn(bits([time is not None for time in times]), data)
    for codec in ENCODERS:
        encoded = codec.RowEncoder(Columns(len(times), timestamp=column)).encode_rows(
            NOW, bytes_max=UNLIMITED, reserve=0
        )

        decoded = records.decode(encoded.batch, len(times), 0, encoded.base_timestamp)
        assert [record.timestamp for record in decoded] == [NOW if time is None else time for time in times]
        assert encoded.max_timestamp == max(record.timestamp for record in decoded)


def test_a_time_before_1970_is_rounded_down(codec: Any) -> None:
    column = LongColumn(None, array("q", [-1, -1000, -1001]).tobytes())
    encoded = codec.RowEncoder(Columns(3, timestamp=column)).encode_rows(NOW, bytes_max=UNLIMITED, reserve=0)

    decoded = records.decode(encoded.batch, 3, 0, encoded.base_timestamp)
    assert [record.timestamp for record in decoded] == [-1, -1, -2]


def test_null_headers_are_none(codec: Any) -> None:
    headers = HeadersColumn(bits([False, True]), int32(0, 1, 2), strings([b"a", b"b"]), strings([None, b"x"]))
    encoded = codec.RowEncoder(Columns(2, headers=headers)).encode_rows(0, bytes_max=UNLIMITED, reserve=0)

    assert [record.headers for record in records.decode(encoded.batch, 2, 0, 0)] == [(), (("b", b"x"),)]


def test_a_header_without_key_is_refused(codec: Any) -> None:
    headers = HeadersColumn(None, int32(0, 1), strings([None]), strings([b"x"]))
    with pytest.raises(ValueError, match="no key"):
        codec.RowEncoder(Columns(1, headers=headers)).encode_rows(0, bytes_max=UNLIMITED)


@pytest.mark.parametrize(
    "wrong",
    [
        Columns(-1),
        Columns(2**62, timestamp=LongColumn(None, b"")),
        Columns(1, timestamp=LongColumn(None, bytes(8), 2**63 - 1)),
        Columns(1, key=BytesColumn(None, int32(0, 1), b"a", 2**63 - 1)),
        Columns(2, key=BytesColumn(None, int32(0, 1), b"a")),
        Columns(1, key=BytesColumn(None, int32(0, 1), b"a", -1)),
        Columns(1, key=BytesColumn(None, int32(0, 1), b"a", 1)),
        Columns(1, key=BytesColumn(None, int32(0, 2), b"a")),
        Columns(1, value=BytesColumn(None, int32(-1, 0), b"a")),
        Columns(2, value=BytesColumn(None, int32(0, 1, 0), b"a")),
        Columns(9, value=BytesColumn(b"\xff", int32(*[0] * 10), b"")),
        Columns(2, timestamp=LongColumn(None, bytes(15))),
        Columns(1, timestamp=LongColumn(None, bytes(8), -1)),
        Columns(9, timestamp=LongColumn(b"\xff", bytes(72))),
        Columns(1, headers=HeadersColumn(None, int32(0, 2), strings([b"a"]), strings([b"a", b"b"]))),
        Columns(1, headers=HeadersColumn(None, int32(0, 2), strings([b"a", b"b"]), strings([b"a"]))),
        Columns(1, headers=HeadersColumn(None, int32(3, 2), strings([b"a"]), strings([b"b"]))),
    ],
)
def test_buffers_that_contradict_themselves_are_refused(codec: Any, wrong: Columns) -> None:
    with pytest.raises(ValueError):
        codec.RowEncoder(wrong)


def test_rows_that_do_not_exist_are_refused(codec: Any) -> None:
    encoder = codec.RowEncoder(Columns(3))
    for row in (-1, 3):
        with pytest.raises(ValueError, match="is selected"):
            encoder.encode_rows(0, bytes_max=99, selection=int32(0, row))
        with pytest.raises(ValueError, match="is selected"):
            encoder.partition_rows(4, selection=int32(row))
    for start, stop in ((-1, 2), (2, 1), (0, 4), (1, 1)):
        with pytest.raises(ValueError, match="not among"):
            encoder.encode_rows(0, bytes_max=99, start=start, stop=stop)
    with pytest.raises(ValueError, match="left free"):
        encoder.encode_rows(0, bytes_max=99, reserve=-1)


@pytest.mark.parametrize("timestamp_ms", [-1, 2**61 + 1])
def test_a_time_of_writing_that_is_no_time_is_refused(codec: Any, timestamp_ms: int) -> None:
    with pytest.raises(ValueError, match="no time"):
        codec.RowEncoder(Columns(1)).encode_rows(timestamp_ms, bytes_max=99)


def test_partitions_that_do_not_exist_are_refused(codec: Any) -> None:
    for partition in (-1, 2):
        with pytest.raises(ValueError, match="row 1 is for partition"):
            codec.group_rows(int32(0, partition), 2)
    for partition_count in (0, -1, 2**24 + 1):
        with pytest.raises(ValueError, match="no number of partitions"):
            codec.group_rows(int32(0), partition_count)
        with pytest.raises(ValueError, match="no number of partitions"):
            codec.RowEncoder(Columns(1)).partition_rows(partition_count)
    with pytest.raises(ValueError, match="selected"):
        codec.group_rows(int32(0, 1), 2, int32(0))
