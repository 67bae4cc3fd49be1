"""JSON against JSON Schemas of all drafts."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from headwater.registry.errors import InvalidPayload, InvalidSchema
from headwater.registry.formats import parse
from headwater.registry.parsed import Document, SchemaType
from headwater.registry.payloads.codec import DEPTH_MAX, Codec, codec_of

ORDER: dict[str, Any] = {
    "type": "object",
    "required": ["id"],
    "additionalProperties": False,
    "properties": {
        "id": {"type": "integer"},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
        "code": {"pattern": "^(a+)+$"},
        "next": {"$ref": "#"},
    },
}


def codec(schema: Any, references: Mapping[str, Any] | None = None) -> Codec:
    resolved = {name: json.dumps(each) for name, each in (references or {}).items()}
    return codec_of(parse(Document(SchemaType.JSON, json.dumps(schema), resolved)))


def test_a_value_is_read_back() -> None:
    value = {"id": 1, "lines": [{"name": "x"}], "next": {"id": 2}}

    assert codec(ORDER).decode(codec(ORDER).encode(value)) == value


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"id": "1"}, "/id"),
        ({}, ""),
        ({"id": 1, "other": 2}, ""),
        ({"id": 1, "lines": [{"name": "x"}, {"name": 2}]}, "/lines/1/name"),
        ({"id": 1, "next": {"id": 1, "next": {"id": None}}}, "/next/next/id"),
    ],
)
def test_a_wrong_value_is_refused_with_its_path(value: Any, path: str) -> None:
    for act in (codec(ORDER).encode, lambda each: codec(ORDER).validate(json.dumps(each).encode())):
        with pytest.raises(InvalidPayload) as refused:
            act(value)
        assert refused.value.path == path


@pytest.mark.parametrize("payload", [b"", b"{", b"\xff", b"nul", b"[" * 200 + b"]" * 200, b"[" * 100_000])
def test_hostile_bytes_are_refused(payload: bytes) -> None:
    with pytest.raises(InvalidPayload):
        codec(True).validate(payload)


def test_depth_is_bounded() -> None:
    value: Any = {"id": 1}
    for _ in range(DEPTH_MAX + 1):
        value = {"id": 1, "next": value}

    with pytest.raises(InvalidPayload, match="deep"):
        codec(ORDER).encode(value)


def test_patterns_run_in_linear_time() -> None:
    with pytest.raises(InvalidPayload):
        codec(ORDER).encode({"id": 1, "code": "a" * 50_000 + "b"})


@pytest.mark.parametrize("base", [None, "https://example.com/schemas/order.json"])
def test_references_are_found_by_name(base: str | None) -> None:
    schema = {"properties": {"money": {"$ref": "money.json#/definitions/amount"}}}
    references = {"money.json": {"definitions": {"amount": {"type": "integer"}}}}

    values = codec(schema if base is None else {"$id": base, **schema}, references)

    values.encode({"money": 1})
    with pytest.raises(InvalidPayload):
        values.encode({"money": "1"})


@pytest.mark.parametrize(
    ("draft", "items"),
    [
        ("http://json-schema.org/draft-04/schema#", {"items": [{"type": "string"}]}),
        ("http://json-schema.org/draft-07/schema#", {"items": [{"type": "string"}]}),
        ("https://json-schema.org/draft/2020-12/schema", {"prefixItems": [{"type": "string"}]}),
        (None, {"items": [{"type": "string"}]}),
    ],
)
def test_the_draft_decides(draft: str | None, items: dict[str, Any]) -> None:
    values = codec(items if draft is None else {"$schema": draft, **items})

    values.encode(["x"])
    with pytest.raises(InvalidPayload):
        values.encode([1])


def test_nothing_is_fetched() -> None:
    with pytest.raises(InvalidSchema):
        codec({"$ref": "http://127.0.0.1:1/x.json"})
