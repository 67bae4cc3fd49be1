"""Avro's binary form, against fastavro; and Avro's JSON encoding."""

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.registry.errors import InvalidPayload
from headwater.registry.formats import parse
from headwater.registry.parsed import Document, SchemaType
from headwater.registry.payloads.codec import DEPTH_MAX, Codec, Form, codec_of

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "count", "type": "int", "default": 1},
        {"name": "price", "type": "double"},
        {"name": "note", "type": ["null", "string", "bytes"], "default": None},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "code", "type": {"type": "fixed", "name": "Code", "size": 2}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "totals", "type": {"type": "map", "values": "float"}},
        {"name": "is_open", "type": "boolean"},
        {"name": "next", "type": ["null", "Order"], "default": None},
    ],
}
LEAF = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**63), 2**63 - 1),
        "count": st.integers(-(2**31), 2**31 - 1),
        "price": st.floats(allow_nan=False),
        "note": st.none() | st.text() | st.binary(),
        "state": st.sampled_from(["NEW", "PAID"]),
        "code": st.binary(min_size=2, max_size=2),
        "tags": st.lists(st.text()),
        "totals": st.dictionaries(st.text(), st.floats(width=32, allow_nan=False)),
        "is_open": st.booleans(),
        "next": st.none(),
    }
)
ORDERS = st.recursive(LEAF, lambda inner: st.builds(lambda order, after: {**order, "next": after}, LEAF, inner))


def codec(schema: Any, form: Form = Form.NATIVE) -> Codec:
    return codec_of(parse(Document(SchemaType.AVRO, json.dumps(schema))), form)


def long(number: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, {"type": "long"}, number)
    return out.getvalue()


@given(ORDERS)
def test_fastavro_writes_and_reads_the_same(order: dict[str, Any]) -> None:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(ORDER), order)

    assert codec(ORDER).decode(out.getvalue()) == order
    assert codec(ORDER).encode(order) == out.getvalue()
    codec(ORDER).validate(out.getvalue())


@given(ORDERS)
def test_json_round_trip(order: dict[str, Any]) -> None:
    payload = codec(ORDER).encode(order)
    in_json = codec(ORDER, Form.JSON)

    value = json.loads(json.dumps(in_json.decode(payload), allow_nan=False))

    assert in_json.encode(value) == payload


@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_or_refused(data: bytes) -> None:
    try:
        value = codec(ORDER).decode(data)
    except InvalidPayload:
        return
    assert codec(ORDER).decode(codec(ORDER).encode(value)) == value or "nan" in repr(value)


def test_json_encoding_names_the_type_of_a_union() -> None:
    values = codec(["null", "string", "long", {"type": "array", "items": "bytes"}], Form.JSON)

    assert values.encode({"string": "x"}) == values.encode("x") == b"\2\2x"
    assert values.encode({"long": 7}) == values.encode(7)
    assert values.decode(values.encode(None)) is None
    assert values.decode(values.encode(7)) == {"long": 7}
    assert values.decode(values.encode(["\xff"])) == {"array": ["\xff"]}


def test_a_record_in_a_union_is_named_with_its_namespace_or_without() -> None:
    inner = {"type": "record", "name": "com.A", "fields": [{"name": "x", "type": "int"}]}
    values = codec(["null", inner], Form.JSON)

    expected = values.encode({"com.A": {"x": 1}})
    assert values.encode({"A": {"x": 1}}) == values.encode({"x": 1}) == expected
    assert values.decode(expected) == {"com.A": {"x": 1}}


def test_numbers_that_json_lacks_are_texts() -> None:
    values = codec({"type": "array", "items": "double"}, Form.JSON)

    payload = values.encode(["NaN", "Infinity", "-Infinity", 1])
    assert values.decode(payload) == ["NaN", "Infinity", "-Infinity", 1.0]


def test_defaults_stand_for_missing_fields() -> None:
    values = codec(ORDER, Form.JSON)
    order = {"id": 1, "price": 1, "state": "NEW", "code": "ab", "tags": [], "totals": {}, "is_open": True}

    decoded = values.decode(values.encode(order))

    assert decoded["count"] == 1
    assert decoded["note"] is None


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"id": "1"}, "/id"),
        ({"id": 2**63}, "/id"),
        ({"id": True}, "/id"),
        ({"count": 2**31}, "/count"),
        ({"code": "abc"}, "/code"),
        ({"code": "€€"}, "/code"),
        ({"state": "GONE"}, "/state"),
        ({"tags": ["a", 1]}, "/tags/1"),
        ({"totals": {"x": "y"}}, "/totals/x"),
        ({"totals": {"x": 1e300}}, "/totals/x"),
        ({"note": 1}, "/note"),
        ({"other": 1}, "/other"),
        ({"next": {"Order": {"id": 1}}}, "/next/price"),
        ({"tags": ["\ud800"]}, "/tags/0"),
    ],
)
def test_a_wrong_value_is_refused_with_its_path(change: dict[str, Any], path: str) -> None:
    order = {"id": 1, "price": 1, "state": "NEW", "code": "ab", "tags": [], "totals": {}, "is_open": True, **change}

    with pytest.raises(InvalidPayload) as refused:
        codec(ORDER, Form.JSON).encode(order)

    assert refused.value.path == path


NOTHING = {"type": "record", "name": "N", "fields": [{"name": f"f{n}", "type": "null"} for n in range(1000)]}
LIST = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        ("string", b""),
        ("string", long(-1)),
        ("string", long(2**62)),
        ("string", b"\2\xff"),
        ("bytes", long(3) + b"ab"),
        ("int", long(2**31)),
        ("long", b"\xff" * 12),
        ("long", b"\xff" * 9 + b"\x7f"),
        ("boolean", b"\2"),
        ("double", bytes(7)),
        ("null", b"\0"),
        (["null", "int"], long(2)),
        (["null", "int"], long(-1)),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, long(1)),
        ({"type": "array", "items": "null"}, long(2**62) + b"\0"),
        ({"type": "array", "items": "long"}, long(2**62) + b"\0"),
        ({"type": "array", "items": NOTHING}, (long(1000) * 100) + b"\0"),
        ({"type": "map", "values": "null"}, long(-(2**63)) + long(1)),
        (LIST, b"\2" * 100_000 + b"\0"),
    ],
)
def test_hostile_bytes_are_refused_at_once(schema: Any, payload: bytes) -> None:
    for form in Form:
        with pytest.raises(InvalidPayload):
            codec(schema, form).decode(payload)


def test_a_value_that_is_nested_too_deeply_is_refused() -> None:
    value: Any = None
    for _ in range(DEPTH_MAX + 2):
        value = {"next": value}

    with pytest.raises(InvalidPayload, match="deep"):
        codec(LIST, Form.JSON).encode(value)
    with pytest.raises(InvalidPayload, match="deep"):
        codec(LIST).decode(b"\2" * (DEPTH_MAX + 1) + b"\0")
    codec(LIST).decode(b"\2" * (DEPTH_MAX - 1) + b"\0")


def test_defaults_do_not_make_a_small_value_a_huge_payload() -> None:
    filled = {"type": "record", "name": "F", "fields": [{"name": "f", "type": "string", "default": "x" * 500_000}]}

    with pytest.raises(InvalidPayload, match="defaults"):
        codec({"type": "array", "items": filled}, Form.JSON).encode([{}] * 1_000)
