"""`value.format` = `registry` without a session: columns have the type of a version, older records are read as it."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from headwater.client.registry.schema_registry import Schema, SchemaRegistry
from headwater.errors import ConfigError
from headwater.registry.parsed import Reference, SchemaType
from headwater.serde import Context, Serdes
from headwater.spark.formats.decoding import Decoded
from headwater.spark.options import registry_options
from headwater.spark.options.read_options import read_options
from headwater.spark.options.write_options import write_options
from headwater.spark.writes.registry_values import ValueRefused, serialized
from headwater.testing import Broker

V1 = '{"type":"record","name":"Order","fields":[{"name":"id","type":"int"},{"name":"old","type":"string"}]}'
V2 = (
    '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},'
    '{"name":"at","type":["null",{"type":"long","logicalType":"timestamp-micros"}],"default":null},'
    '{"name":"tags","type":{"type":"map","values":"int"},"default":{}}]}'
)
JSON = (
    '{"type":"object","properties":{"id":{"type":"integer"},"price":{"type":["number","null"]},'
    '"lines":{"type":"array","items":{"$ref":"#/definitions/line"}},"any":{}},'
    '"definitions":{"line":{"type":"object","properties":{"item":{"type":"string"},'
    '"parent":{"$ref":"#/definitions/line"}}}}}'
)
MONEY = 'syntax = "proto3"; package shop; message Money { int64 cents = 1; }'
PROTO = (
    'syntax = "proto3"; package shop; import "money.proto"; message Other { string x = 1; } '
    "message Order { int64 id = 1; Money total = 2; bytes raw = 3; }"
)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"headwater.schemas.enable": "true"}, http=True) as running:
        yield running
        for schemas in registry_options._schemas.values():
            schemas.registry.close()
        registry_options._schemas.clear()


@pytest.fixture
def serdes(broker: Broker) -> Iterator[Serdes]:
    with Serdes(broker.http_url) as serdes:
        yield serdes


@pytest.fixture
def registry(broker: Broker) -> Iterator[SchemaRegistry]:
    with SchemaRegistry(broker.http_url) as registry:
        yield registry


def reading(broker: Broker, topic: str, **options: str) -> Any:
    named = {name.replace("_", "."): value for name, value in options.items()}
    given = {"bootstrap.servers": "x:1", "subscribe": topic, "value.format": "registry"}
    read = read_options({**given, "schema.registry.url": broker.http_url, **named}, is_streaming=False)
    return read.formats.formats["value"]


def decoded(chosen: Any, *values: bytes) -> Decoded:
    return chosen.decoder(chosen.column_type()).decode(pa.array(values, pa.binary()))


def test_avro_of_all_versions_is_read_as_the_latest_or_a_pinned_one(
    broker: Broker, serdes: Serdes, registry: SchemaRegistry
) -> None:
    context = Context("evolving")
    old = serdes.get("avro", schema=Schema(V1)).serialize({"id": 1, "old": "x"}, context)
    registry.configure("evolving-value", {"compatibility": "NONE"})
    new = serdes.get("avro", schema=Schema(V2)).serialize({"id": 2, "tags": {"a": 1}}, context)
    chosen = reading(broker, "evolving")
    assert chosen.column_type().simpleString() == "struct<id:bigint,at:timestamp,tags:map<string,int>>"
    values, failures = decoded(chosen, new, old, b"none", new, b"\0\0\0\0\x7fx", old + b"x")
    assert values.to_pylist() == [
        {"id": 2, "at": None, "tags": [("a", 1)]},
        {"id": 1, "at": None, "tags": []},
        None,
        {"id": 2, "at": None, "tags": [("a", 1)]},
        None,
        None,
    ]
    assert [each.row for each in failures] == [2, 4, 5]
    assert "127 not found" in failures[1].reason
    # The first version has a field that the second lacks, and no default for it.
    pinned = reading(broker, "evolving", value_version="1")
    values, failures = decoded(pinned, old, new)
    assert values.to_pylist() == [{"id": 1, "old": "x"}, None]
    assert [each.row for each in failures] == [1]


def test_protobuf_with_references(broker: Broker, serdes: Serdes, registry: SchemaRegistry) -> None:
    registry.register("money", Schema(MONEY, SchemaType.PROTOBUF))
    schema = Schema(PROTO, SchemaType.PROTOBUF, (Reference("money.proto", "money", 1),))
    order = serdes.get("protobuf", schema=schema, message="Order")
    context = Context("proto")
    data = order.serialize({"id": "7", "total": {"cents": "5"}}, context)
    other = serdes.get("protobuf", schema=schema, message="Other").serialize({"x": "y"}, context)
    chosen = reading(broker, "proto", value_message="Order")
    assert chosen.column_type().simpleString() == "struct<id:bigint,total:struct<cents:bigint>,raw:binary>"
    values, failures = decoded(chosen, data, other)
    assert values.to_pylist() == [{"id": 7, "total": {"cents": 5}, "raw": b""}, None]
    assert "the message is shop.Other" in failures[0].reason


def test_json_schema_becomes_columns(broker: Broker, serdes: Serdes) -> None:
    value = {"id": 7, "price": None, "lines": [{"item": "tea"}], "any": [1]}
    serde = serdes.get("json-schema", schema=Schema(JSON, SchemaType.JSON))
    data = serde.serialize(value, Context("json"))
    chosen = reading(broker, "json")
    assert chosen.column_type().simpleString() == (
        "struct<id:bigint,price:double,lines:array<struct<item:string,parent:string>>,any:string>"
    )
    values, failures = decoded(chosen, data)
    assert (values.to_pylist(), list(failures)) == (
        [{"id": 7, "price": None, "lines": [{"item": "tea", "parent": None}], "any": "[1]"}],
        [],
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"schema_registry_url": ""}, "schema.registry.url"),
        ({}, "Subject 'nothing-value' not found"),
        ({"value_schema": "x"}, "has no meaning"),
        ({"value_version": "soon"}, "whole number"),
        ({"value_format": "string", "value_subject": "s"}, "no meaning without"),
        ({"subscribe": "a,b"}, "'value.subject' is missing"),
        ({"schema_registry_url": "http://127.0.0.1:1"}, "Connection refused"),
        ({"schema_registry_basic_auth_user": "x"}, "did you mean"),
    ],
)
def test_wrong_options_are_refused(broker: Broker, options: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        reading(broker, options.pop("subscribe", "nothing"), **options)


def writing(broker: Broker, topic: str, **options: str) -> Any:
    named = {name.replace("_", "."): value for name, value in options.items()}
    given = {"bootstrap.servers": "x:1", "topic": topic, "value.format": "registry"}
    return write_options({**given, "schema.registry.url": broker.http_url, **named}, is_streaming=False).schemas


def test_columns_are_written_with_the_schema(broker: Broker, serdes: Serdes, registry: SchemaRegistry) -> None:
    registry.register("written-value", Schema(V2))
    kind = pa.struct(
        [("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("tags", pa.map_(pa.string(), pa.int32()))]
    )
    values = [{"id": 1, "at": 5, "tags": [("a", 1)]}, None]
    rows = pa.RecordBatch.from_arrays([pa.array(values, kind), pa.array(["k", "k"])], names=["value", "key"])
    written: list[Any] = serialized(rows, writing(broker, "written")).column(0).to_pylist()
    read = serdes.get("registry").deserialize(written[0], Context("written"))
    assert (read["id"], read["at"].microsecond, read["tags"]) == (1, 5, {"a": 1})
    assert written[1] is None
    wrong = pa.RecordBatch.from_arrays([pa.array([{"id": "x"}])], names=["value"])
    with pytest.raises(ValueRefused, match="subject 'written-value': the value does not follow schema"):
        serialized(wrong, writing(broker, "written"))


def test_protobuf_and_json_are_written_by_their_json(broker: Broker, serdes: Serdes, registry: SchemaRegistry) -> None:
    text = 'syntax = "proto3"; import "google/protobuf/timestamp.proto"; message O { bytes raw = 1; '
    text += "google.protobuf.Timestamp at = 2; string note = 3; }"
    registry.register("p-value", Schema(text, SchemaType.PROTOBUF))
    kind = pa.struct([("raw", pa.binary()), ("at", pa.timestamp("us", "UTC")), ("note", pa.string())])
    rows = pa.RecordBatch.from_arrays([pa.array([{"raw": b"\xff", "at": 5, "note": None}], kind)], names=["value"])
    written: Any = serialized(rows, writing(broker, "p")).column(0).to_pylist()[0]
    assert serdes.get("registry").deserialize(written, Context("p")) == {
        "raw": "/w==",
        "at": "1970-01-01T00:00:00.000005Z",
        "note": "",
    }
