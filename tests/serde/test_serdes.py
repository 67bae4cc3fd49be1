"""Serdes by name, and what they write and read beside Confluent's serializers."""

# The serializers are made by a metaclass that hides their arguments.
# pyright: reportCallIssue=false, reportGeneralTypeIssues=false

from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema as ConfluentSchema
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.timestamp_pb2 import Timestamp

from headwater.client.cluster import Cluster
from headwater.client.consumer import Consumer
from headwater.client.producer import Producer
from headwater.ids import TopicName, TopicPartition
from headwater.serde import (
    Context,
    Reference,
    Schema,
    SchemaRegistry,
    Schemas,
    SchemaType,
    SerdeError,
    Serdes,
    TypedProducer,
    typed_records,
)
from headwater.testing import Broker

ORDER = (
    '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"long"},'
    '{"name":"day","type":["null",{"type":"int","logicalType":"date"}],"default":null}]}'
)
ORDER_WITH_NOTE = ORDER.replace("]}", ',{"name":"note","type":"string","default":"-"}]}', 1)
JSON_ORDER = '{"title":"Order","type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}'
PROTO = 'syntax = "proto3"; package shop; message A { message B { string x = 1; } } message Order { int64 id = 1; }'
VALUE: Any = {"id": 7, "day": date(2026, 1, 31)}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"headwater.schemas.enable": "true", "num.partitions": "1"}, http=True) as running:
        yield running


@pytest.fixture
def serdes(broker: Broker) -> Iterator[Serdes]:
    with Serdes(broker.http_url) as serdes:
        yield serdes


@pytest.fixture
def registry(broker: Broker) -> Iterator[SchemaRegistry]:
    with SchemaRegistry(broker.http_url) as registry:
        yield registry


@pytest.fixture
def confluent(broker: Broker) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": broker.http_url}) as client:
        yield client


def place(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def test_simple_serdes() -> None:
    serdes, context = Serdes(), Context("t")
    for name, value, data in (
        ("binary", b"\0\xff", b"\0\xff"),
        ("string", "é", "é".encode()),
        ("json", {"a": [1, None]}, b'{"a":[1,null]}'),
    ):
        serde = serdes.get(name)
        assert serde.serialize(value, context) == data
        assert serde.deserialize(data, context) == value
    for name, value, data in (("binary", "x", None), ("string", b"x", b"\xff"), ("json", object(), b"{")):
        with pytest.raises(SerdeError):
            serdes.get(name).serialize(value, context)
        if data is not None:
            with pytest.raises(SerdeError):
                serdes.get(name).deserialize(data, context)


def test_a_serde_of_your_own() -> None:
    class Reversed:
        def __init__(self, prefix: bytes = b"") -> None:
            self.prefix = prefix

        def serialize(self, value: bytes, context: Context) -> bytes:
            return self.prefix + value[::-1]

        def deserialize(self, data: bytes, context: Context) -> bytes:
            return data.removeprefix(self.prefix)[::-1]

    serdes = Serdes()
    serdes.register("reversed", Reversed)
    assert serdes.get("reversed", prefix=b"r").serialize(b"ab", Context("t")) == b"rba"
    assert serdes.names == ["binary", "json", "reversed", "string"]
    with pytest.raises(SerdeError, match="there is a serde 'reversed' already"):
        serdes.register("reversed", Reversed)
    with pytest.raises(SerdeError, match="no serde 'rot13', only binary"):
        serdes.get("rot13")
    with pytest.raises(SerdeError, match=r"needs a schema registry \(schema.registry.url\)"):
        serdes.get("avro")
    with pytest.raises(SerdeError, match="unexpected"):
        serdes.get("reversed", suffix=b"r")


def test_avro_beside_confluents(serdes: Serdes, confluent: SchemaRegistryClient) -> None:
    serde = serdes.get("avro", schema=Schema(ORDER))
    context = Context("avro")
    theirs: Any = AvroSerializer(confluent, ORDER)(VALUE, place("avro"))
    assert serde.serialize(VALUE, context) == theirs
    assert serde.deserialize(theirs, context) == VALUE
    assert serdes.get("registry").deserialize(theirs, context) == VALUE
    assert AvroDeserializer(confluent)(serde.serialize({"id": 8}, context), place("avro")) == {"id": 8, "day": None}


def test_json_beside_confluents(serdes: Serdes, confluent: SchemaRegistryClient) -> None:
    serde = serdes.get("json-schema", schema=Schema(JSON_ORDER, SchemaType.JSON))
    theirs: Any = JSONSerializer(JSON_ORDER, confluent)({"id": 7}, place("json"))
    assert serde.deserialize(theirs, Context("json")) == {"id": 7}
    ours = serde.serialize({"id": 7}, Context("json"))
    assert ours[:5] == theirs[:5]
    assert JSONDeserializer(JSON_ORDER)(ours, place("json")) == {"id": 7}
    with pytest.raises(SerdeError, match="at /id"):
        serde.serialize({"id": "seven"}, Context("json"))


def test_protobuf_beside_confluents(serdes: Serdes, confluent: SchemaRegistryClient) -> None:
    theirs: Any = ProtobufSerializer(Timestamp, confluent)(Timestamp(seconds=5), place("time"))
    assert serdes.get("protobuf").deserialize(theirs, Context("time")) == "1970-01-01T00:00:05Z"
    # An object of a generated class, whose schema is there already.
    schema_id = int.from_bytes(theirs[1:5], "big")
    assert serdes.get("protobuf", schema_id=schema_id).serialize(Timestamp(seconds=5), Context("time")) == theirs
    assert ProtobufDeserializer(Timestamp)(theirs, place("time")) == Timestamp(seconds=5)


def test_messages_of_a_file_are_named(serdes: Serdes) -> None:
    schema, context = Schema(PROTO, SchemaType.PROTOBUF), Context("messages")
    for message, value in (("shop.A.B", {"x": "y"}), ("Order", {"id": "7"})):
        serde = serdes.get("protobuf", schema=schema, message=message)
        assert serde.deserialize(serde.serialize(value, context), context) == value
    record_serde = serdes.get("protobuf", schema=schema, message="A.B", strategy="record")
    assert record_serde.serialize({}, context)[5:] == b"\4\0\0"
    with pytest.raises(SerdeError, match="no message"):
        serdes.get("protobuf", schema=schema, message="C").serialize({}, context)


def test_the_number_may_be_in_a_header(serdes: Serdes, confluent: SchemaRegistryClient) -> None:
    headers: list[Any] = []
    place_with_headers = SerializationContext("header", MessageField.VALUE, headers)
    serializer = AvroSerializer(confluent, ORDER, conf={"schema.id.serializer": header_schema_id_serializer})
    payload: Any = serializer(VALUE, place_with_headers)
    assert serdes.get("avro").deserialize(payload, Context("header", "value", tuple(headers))) == VALUE


def test_older_versions_are_read_as_the_latest_or_as_a_schema_of_ones_own(
    serdes: Serdes, registry: SchemaRegistry
) -> None:
    context = Context("evolving")
    written = serdes.get("avro", schema=Schema(ORDER)).serialize({"id": 7}, context)
    newer = Schema(ORDER_WITH_NOTE)
    registry.register("evolving-value", newer)
    resolved = {"id": 7, "day": None, "note": "-"}
    assert serdes.get("avro", reader="latest").deserialize(written, context) == resolved
    assert serdes.get("avro", reader=newer).deserialize(written, context) == resolved
    assert serdes.get("avro").deserialize(written, context) == {"id": 7, "day": None}
    # Without a schema of its own it writes the latest version.
    assert serdes.get("avro").serialize({"id": 1, "note": "x"}, context)[:5] != written[:5]


@pytest.mark.parametrize(("strategy", "subject"), [("record", "shop.Order"), ("topic-record", "named-shop.Order")])
def test_subjects_follow_the_strategy(serdes: Serdes, registry: SchemaRegistry, strategy: str, subject: str) -> None:
    serdes.get("avro", schema=Schema(ORDER), strategy=strategy).serialize({"id": 7}, Context("named"))
    assert registry.versions(subject) == [1]


def test_what_is_wrong_is_told(serdes: Serdes) -> None:
    context = Context("wrong")
    serde = serdes.get("avro", schema=Schema(ORDER))
    good = serde.serialize({"id": 7}, context)
    for data, text in (
        (b"", "no schema's number"),
        (b"\0\0\0", "cut off"),
        (good + b"x", "1 bytes follow"),
        (b"\0\x7f\0\0\0x", "Schema 2130706432 not found"),
    ):
        with pytest.raises(SerdeError, match=text):
            serde.deserialize(data, context)
    with pytest.raises(SerdeError, match="at /id"):
        serde.serialize({"id": "seven"}, context)
    with pytest.raises(SerdeError, match="Subject 'nothing-value' not found"):
        serdes.get("avro").serialize({}, Context("nothing"))
    with pytest.raises(SerdeError, match="not found"):
        serdes.get("avro", schema=Schema('"bytes"'), registers=False).serialize(b"", context)
    with pytest.raises(SerdeError, match="is AVRO, not PROTOBUF"):
        serdes.get("protobuf", schema_id=int.from_bytes(good[1:5], "big")).serialize({}, context)


def test_references_are_resolved(serdes: Serdes, registry: SchemaRegistry) -> None:
    registry.register("money", Schema('{"type":"record","name":"Money","fields":[{"name":"cents","type":"long"}]}'))
    order = Schema(
        '{"type":"record","name":"Paid","fields":[{"name":"total","type":"Money"}]}',
        references=(Reference("Money", "money", 1),),
    )
    value = {"total": {"cents": 5}}
    written = serdes.get("avro", schema=order).serialize(value, Context("paid"))
    assert serdes.get("registry").deserialize(written, Context("paid")) == value


def test_what_is_kept_of_schemas_is_bounded(registry: SchemaRegistry) -> None:
    schemas = Schemas(registry, schemas_max=5)
    for number in range(10):
        text = f'{{"type":"fixed","name":"F","size":{number + 1}}}'
        schemas.registered(f"bounded-{number}", Schema(text), registers=True)
    assert len(schemas._known) == 5


def test_typed_producers_and_records(serdes: Serdes, broker: Broker) -> None:
    value, key = serdes.get("avro", schema=Schema(ORDER)), serdes.get("string")
    with Cluster(broker.bootstrap_servers) as cluster:
        with Producer(cluster, create_topics=True) as producer:
            orders = TypedProducer(producer, key=key, value=value)
            orders.send("typed", VALUE, key="ann")
            orders.send("typed", None, key="ann", headers=(("h", b"x"),))
        consumer = Consumer(cluster, {TopicPartition(TopicName("typed"), 0): 0})
        records = list(typed_records(consumer.poll(), key=key, value=value))
    read = [(each.key, each.value, each.headers) for each in records]
    assert read == [("ann", VALUE, ()), ("ann", None, (("h", b"x"),))]


def test_confluents_schema_is_found_by_ours(serdes: Serdes, confluent: SchemaRegistryClient) -> None:
    schema_id = confluent.register_schema("shared-value", ConfluentSchema(ORDER, "AVRO"))
    written = serdes.get("avro", schema=Schema(ORDER), registers=False).serialize({"id": 7}, Context("shared"))
    assert int.from_bytes(written[1:5], "big") == schema_id
