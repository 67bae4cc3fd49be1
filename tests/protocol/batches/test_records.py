"""Each test of behaviour runs on the pure and, where it is there, on the compiled codec."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater.errors import CorruptBatch, ErrorCode
from headwater.protocol.batches.records import InvalidRecord
from tests.protocol.batches.hostile_records import body, frame, hostile_payloads, varint
from tests.support.protocol.record_variants import CONTENTS, HEADERS, VARIANTS

NOW = 1_700_000_000_000


@pytest.fixture(params=VARIANTS, ids=lambda codec: "compiled" if codec.COMPILED else "pure")
def codec(request: pytest.FixtureRequest) -> Any:
    return request.param


def outcome(codec: Any, function: str, *arguments: Any, **options: Any) -> Any:
    """What a call gives, or how it refuses, in a form that the two variants can be compared by."""
    try:
        result = getattr(codec, function)(*arguments, **options)
    except Exception as error:
        return type(error).__name__, str(error), getattr(error, "code", None), getattr(error, "index", None)
    if function == "refuse" and result is not None:
        return type(result).__name__, str(result), result.code, result.index, result.refused
    if isinstance(result, list):
        return [(record.offset, record.timestamp, record.key, record.value, record.headers) for record in result]
    return result


def test_the_plain_record_has_kafkas_bytes(codec: Any) -> None:
    record = codec.Record(7, NOW + 64, b"k", b"", (("h", None), ("é", b"x")))

    encoded = codec.encode([record], 5, NOW)

    # length, attributes, timestamp delta 64, offset delta 2, key, value, two headers
    assert encoded == bytes.fromhex("20 00 8001 04 02 6b 00 04 02 68 01 04 c3a9 02 78")
    assert codec.decode(encoded, 1, 5, NOW) == [record]


@given(contents=st.lists(CONTENTS, max_size=8), base_offset=st.integers(0, 2**50), gap=st.integers(1, 2**20))
def test_encoded_records_are_valid_and_decode_to_the_same(contents: list[Any], base_offset: int, gap: int) -> None:
    for codec in VARIANTS:
        made = [codec.Record(base_offset + index * gap, *content) for index, content in enumerate(contents)]
        base_timestamp = made[0].timestamp if made else 0

        payload = codec.encode(made, base_offset, base_timestamp, 3)

        assert payload[:3] == bytes(3), "the reserved bytes stay free"
        view = memoryview(payload)[3:]
        assert codec.decode(view, len(made), base_offset, base_timestamp) == made
        assert codec.validate(
            view, len(made), keys_required=False, sparse=gap > 1, base_timestamp=base_timestamp
        ) == max((record.timestamp for record in made), default=-1)


@given(contents=st.lists(CONTENTS, max_size=8))
def test_all_variants_encode_the_same_bytes(contents: list[Any]) -> None:
    encoded = [
        codec.encode([codec.Record(index, *content) for index, content in enumerate(contents)], 0, 1000)
        for codec in VARIANTS
    ]

    assert all(payload == encoded[0] for payload in encoded)


@settings(max_examples=400)
@given(payload_and_count=hostile_payloads(), base=st.sampled_from([0, NOW, -1, 2**61, 2**61 + 1, -(2**63), 2**63 - 1]))
@example(payload_and_count=(b"", 0), base=0)
@example(payload_and_count=(b"", 2**31 - 1), base=0)
def test_hostile_bytes_get_the_same_answer_from_all_variants(payload_and_count: tuple[bytes, int], base: int) -> None:
    payload, count = payload_and_count
    # Bytes around the payload, which a walk beyond its end would read.
    view = memoryview(b"\x00" * 64 + payload + b"\x00" * 64)[64 : 64 + len(payload)]
    calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        ("decode", (view, count, base, 0), {}),
        ("decode", (view, count, 0, base, 5), {}),
        ("validate", (view, count), {"keys_required": True, "base_timestamp": base}),
        ("validate", (view, count), {"keys_required": False, "sparse": True, "timestamp_min": 0, "timestamp_max": 9}),
        ("refuse", (view, count, True, base, 0, 9, 2), {}),
    ]
    for function, arguments, options in calls:
        outcomes = [outcome(codec, function, *arguments, **options) for codec in VARIANTS]

        assert all(other == outcomes[0] for other in outcomes), (function, outcomes)
        if isinstance(outcomes[0], tuple) and len(outcomes[0]) == 4:
            assert outcomes[0][0] == "InvalidRecord", "a refusal is the only error"


def in_parts(codec: Any, payload: bytes, count: int, part_bytes: int, base: int, *, keys_required: bool) -> Any:
    """Validate as a reader that gets a part at a time: what is left of one is put before the next."""
    index, found, left = 0, -1, b""
    refused: list[tuple[int, bool]] = []
    parts = [payload[at : at + part_bytes] for at in range(0, len(payload), part_bytes)] or [b""]
    for number, part in enumerate(parts, 1):
        left += part
        if not left:
            break
        # Bytes around the part, which a walk beyond its end would read.
        view = memoryview(b"\x00" * 64 + left + b"\x00" * 64)[64 : 64 + len(left)]
        is_last = number == len(parts)
        position, index, latest = codec.validate_part(view, index, count, is_last, keys_required, base, 0, 9, refused)
        left, found = left[position:], max(found, latest)
    return index, found, left, refused


@settings(max_examples=400)
@given(
    payload_and_count=hostile_payloads(),
    part_bytes=st.integers(1, 40),
    base=st.sampled_from([0, NOW, 2**61 + 1]),
    keys_required=st.booleans(),
)
@example(payload_and_count=(b"\xff" * 6, 1), part_bytes=1, base=0, keys_required=False)
def test_a_payload_in_parts_gets_the_answer_of_the_whole(
    payload_and_count: tuple[bytes, int], part_bytes: int, base: int, keys_required: bool
) -> None:
    payload, count = payload_and_count

    def whole(codec: Any) -> Any:
        return codec.validate(payload, count, keys_required=False, base_timestamp=base)

    def parts(codec: Any) -> Any:
        return in_parts(codec, payload, count, part_bytes, base, keys_required=keys_required)

    pure, *others = [_answer(parts, codec) for codec in VARIANTS]
    assert all(other == pure for other in others)
    expected = _answer(whole, VARIANTS[0])
    if isinstance(expected, int):
        assert pure[:3] == (count, expected, b"")
    elif count > 0 and isinstance(pure[0], int):
        assert pure[0] < count or pure[2], "bytes are missing or remain, which its caller finds"


def _answer(validate: Callable[[Any], Any], codec: Any) -> Any:
    try:
        return validate(codec)
    except CorruptBatch as error:
        return type(error).__name__, str(error), getattr(error, "index", None)


@settings(max_examples=200)
@given(payload_and_count=hostile_payloads())
def test_bytes_that_validate_accepts_survive_decoding_and_encoding(payload_and_count: tuple[bytes, int]) -> None:
    payload, count = payload_and_count
    for codec in VARIANTS:
        try:
            codec.validate(payload, count, keys_required=False)
        except CorruptBatch:
            continue

        decoded = codec.decode(payload, count, 0, 0)

        again = codec.decode(codec.encode(decoded, 0, 0), count, 0, 0)
        assert again == decoded


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"\x80" * 4 + b"\x00" * 3, "length outside"),
        (b"\x80" * 7, "more bytes than its type"),
        (b"\x80\x80\x80\x80\x80\x00" + bytes(6), "more bytes than its type"),
        (frame(body()[:-1]) + b"\x00", "length outside"),
        (varint(100) + body(), "length outside"),
        (varint(-1) + body(), "length outside"),
        (frame(body(timestamp_delta=varint(2**62 + 1))), "no time"),
        (frame(body(timestamp_delta=varint(-(2**62) - 1))), "no time"),
        (frame(body(timestamp_delta=b"\xff" * 9 + b"\x02")), "more bytes than its type"),
        (frame(body(timestamp_delta=b"\xff" * 10 + b"\x00")), "more bytes than its type"),
        (frame(body(offset_delta=varint(-1))), "no position"),
        (frame(body(offset_delta=varint(2**31))), "no position"),
        (frame(body(key=varint(2))), "ends inside a number"),
        (frame(body(key=varint(5))), "longer than the record"),
        (frame(body(value=varint(2**31))), "longer than the record"),
        (frame(body(headers=varint(-1))), "header count"),
        (frame(body(headers=varint(2**31 - 1))), "header count"),
        (frame(body(headers=varint(1) + b"\x00")), "header count"),
        (frame(body(headers=varint(1) + varint(-1) + b"\x00")), "without key"),
        (frame(body(headers=varint(1) + varint(2) + b"a")), "longer than the record"),
        (frame(body(headers=varint(1) + varint(1) + b"a")), "ends inside a number"),
        (frame(body(headers=varint(1) + varint(0) + varint(1))), "longer than the record"),
        (frame(body(headers=varint(1) + b"\x80\x80")), "ends inside a number"),
        (frame(body() + b"\x00"), "do not fill"),
    ],
)
def test_an_invalid_record_is_named_by_its_index(codec: Any, payload: bytes, reason: str) -> None:
    honest = frame(body())

    for call in (
        lambda: codec.validate(honest + payload, 2, keys_required=False, sparse=True),
        lambda: codec.decode(honest + payload, 2, 0, 0),
    ):
        with pytest.raises(CorruptBatch, match=f"record 1 .*{reason}") as caught:
            call()
        assert caught.value.code is ErrorCode.INVALID_RECORD
        assert caught.value.index == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("count", [-1, 2, 2**31 - 1])
def test_a_count_that_the_bytes_cannot_hold_is_refused_before_the_walk(codec: Any, count: int) -> None:
    with pytest.raises(CorruptBatch, match=f"7 bytes cannot hold {count} records"):
        codec.validate(frame(body()), count, keys_required=False)


def test_bytes_after_the_last_record_are_refused(codec: Any) -> None:
    payload = frame(body()) + frame(body(offset_delta=varint(1)))

    for call in (lambda: codec.validate(payload, 1, keys_required=False), lambda: codec.decode(payload, 1, 0, 0)):
        with pytest.raises(CorruptBatch, match="7 bytes remain") as caught:
            call()
        assert caught.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("deltas", [(1, 2), (0, 2), (0, 0), (1, 0)])
def test_offset_deltas_of_a_producer_count_from_zero(codec: Any, deltas: tuple[int, ...]) -> None:
    payload = b"".join(frame(body(offset_delta=varint(delta))) for delta in deltas)

    with pytest.raises(CorruptBatch, match="offset delta"):
        codec.validate(payload, 2, keys_required=False)


@pytest.mark.parametrize(("deltas", "accepted"), [((1, 2), True), ((0, 9), True), ((3, 3), False), ((4, 3), False)])
def test_offset_deltas_of_a_compacted_batch_rise(codec: Any, deltas: tuple[int, ...], accepted: bool) -> None:
    payload = b"".join(frame(body(offset_delta=varint(delta))) for delta in deltas)

    assert (outcome(codec, "validate", payload, 2, keys_required=False, sparse=True) == 0) is accepted


def test_a_compacted_topic_accepts_no_record_without_key(codec: Any) -> None:
    payload = codec.encode([codec.Record(0, NOW, b"", None), codec.Record(1, NOW, None, b"v")], 0, NOW)

    assert codec.validate(payload, 2, keys_required=False, base_timestamp=NOW) == NOW
    with pytest.raises(CorruptBatch, match="record 1 has no key") as caught:
        codec.validate(payload, 2, keys_required=True)
    assert caught.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("late", [NOW - 11, NOW + 6])
def test_a_timestamp_out_of_its_limits_is_refused_with_its_own_code(codec: Any, late: int) -> None:
    made = [
        codec.Record(0, NOW + 5, None, None),
        codec.Record(1, NOW - 10, None, None),
        codec.Record(2, late, None, None),
    ]
    payload = codec.encode(made, 0, NOW)
    limits = {"base_timestamp": NOW, "timestamp_min": NOW - 10, "timestamp_max": NOW + 5, "keys_required": False}

    assert codec.validate(codec.encode(made[:2], 0, NOW), 2, **limits) == NOW + 5
    with pytest.raises(CorruptBatch, match=f"record 2 has timestamp {late}") as caught:
        codec.validate(payload, 3, **limits)
    assert caught.value.code is ErrorCode.INVALID_TIMESTAMP


def test_a_refusal_names_all_records_that_a_topic_does_not_take(codec: Any) -> None:
    made = [
        codec.Record(0, NOW, b"k", None),
        codec.Record(1, NOW + 6, b"k", None),
        codec.Record(2, NOW + 6, None, None),
        codec.Record(3, -1, b"k", None),
        codec.Record(4, NOW, None, None),
    ]
    payload = codec.encode(made, 0, NOW)

    refusal = codec.refuse(payload, 5, True, NOW, NOW, NOW + 5, 100)

    assert [index for index, _ in refusal.refused] == [1, 2, 4]
    assert [fault.split()[2] for _, fault in refusal.refused] == ["timestamp", "key,", "key,"]
    assert (refusal.index, refusal.code) == (1, ErrorCode.INVALID_TIMESTAMP), "as in Kafka, a wrong time decides"
    assert "3 records" in str(refusal)
    assert len(codec.refuse(payload, 5, True, NOW, NOW, NOW + 5, 2).refused) == 2
    assert codec.refuse(payload, 5, True, NOW, NOW, NOW + 6, 2).code is ErrorCode.INVALID_RECORD
    assert codec.refuse(payload, 5, False, NOW, NOW, NOW + 6, 2) is None


def test_a_record_without_timestamp_is_within_any_limits(codec: Any) -> None:
    payload = codec.encode([codec.Record(0, -1, None, None)], 0, -1)

    assert codec.validate(payload, 1, keys_required=False, base_timestamp=-1, timestamp_min=5, timestamp_max=6) == -1


def test_log_append_time_is_the_timestamp_of_every_record(codec: Any) -> None:
    payload = codec.encode([codec.Record(index, NOW + index, None, None) for index in range(3)], 0, NOW)

    assert {record.timestamp for record in codec.decode(payload, 3, 0, NOW, NOW + 99)} == {NOW + 99}


def test_a_header_key_that_is_no_text_is_shown_with_replacements(codec: Any) -> None:
    payload = frame(body(headers=varint(1) + varint(2) + b"a\xff" + varint(-7)))

    codec.validate(payload, 1, keys_required=False)
    [record] = codec.decode(payload, 1, 0, 0)

    assert record.headers == (("a�", None),)


def test_any_negative_length_is_null_as_in_kafka(codec: Any) -> None:
    [record] = codec.decode(frame(body(key=varint(-5), value=varint(-(2**31)))), 1, 0, 0)

    assert (record.key, record.value) == (None, None)


@pytest.mark.parametrize("timestamp", [2**61 + 1, -(2**61) - 1])
def test_a_timestamp_that_is_no_time_is_not_encoded(codec: Any, timestamp: int) -> None:
    with pytest.raises(CorruptBatch, match="is no time") as caught:
        codec.encode([codec.Record(0, timestamp, None, None)], 0, 0)
    assert caught.value.code is ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("offset", [9, 10 + 2**31])
def test_an_offset_outside_its_batch_is_not_encoded(codec: Any, offset: int) -> None:
    with pytest.raises(CorruptBatch, match="no place"):
        codec.encode([codec.Record(offset, 0, None, None)], 10, 0)


def test_something_else_than_a_record_is_an_error_and_no_crash(codec: Any) -> None:
    for wrong in (None, 5, "record"):
        with pytest.raises((TypeError, AttributeError)):
            codec.encode([wrong], 0, 0)


@given(content=CONTENTS, other=HEADERS)
def test_records_are_values(content: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    for codec in VARIANTS:
        record = codec.Record(3, *content)

        assert record == codec.Record(3, *content)
        assert hash(record) == hash(codec.Record(3, *content))
        assert record != codec.Record(4, *content)
        assert (record == codec.Record(3, *content[:3], other)) == (content[3] == other)
        assert record != (3, *content)
        assert copy.copy(record) == record
        assert repr(content[1]) in repr(record)


def test_records_of_the_installed_codec_can_be_pickled() -> None:
    from headwater.protocol.batches.records import Record

    record = Record(1, 2, b"k", None, (("h", b"v"),))

    assert pickle.loads(pickle.dumps(record)) == record


def test_an_invalid_record_without_index_blames_the_batch() -> None:
    error = InvalidRecord("too bad")

    assert (str(error), error.index, error.code) == ("too bad", -1, ErrorCode.INVALID_RECORD)
