"""Confluent's Python client and its serializers against the registry, as they come."""

# The serializers are made by a metaclass that hides their arguments.
# pyright: reportCallIssue=false, reportGeneralTypeIssues=false

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import (
    AsyncSchemaRegistryClient,
    ConfigCompatibilityLevel,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    ServerConfig,
)
from confluent_kafka.schema_registry.avro import AsyncAvroSerializer, AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.timestamp_pb2 import Timestamp

from headwater.testing import Broker

ORDER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
ORDER_WITH_NOTE = ORDER.replace("]}", ',{"name":"note","type":"string","default":""}]}')
VALUE = SerializationContext("orders", MessageField.VALUE)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"headwater.schemas.enable": "true"}, http=True) as running:
        yield running


@pytest.fixture
def client(broker: Broker) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": broker.http_url}) as client:
        yield client


def refused(caught: pytest.ExceptionInfo[SchemaRegistryError], status: int, code: int) -> None:
    assert (caught.value.http_status_code, caught.value.error_code) == (status, code)


def test_the_whole_client(client: SchemaRegistryClient) -> None:
    subject = "whole-value"
    schema_id = client.register_schema(subject, Schema(ORDER, "AVRO"))
    assert client.register_schema(subject, Schema(ORDER, "AVRO")) == schema_id
    assert client.get_schema(schema_id).schema_str == ORDER
    assert client.lookup_schema(subject, Schema(ORDER, "AVRO")).version == 1
    assert subject in client.get_subjects()
    assert client.get_latest_version(subject).schema_id == schema_id
    assert client.get_version(subject, 1).schema_id == schema_id
    assert client.get_versions(subject) == [1]
    assert client.test_compatibility(subject, Schema(ORDER_WITH_NOTE, "AVRO"))
    assert not client.test_compatibility(subject, Schema(ORDER.replace("long", "string"), "AVRO"))
    with pytest.raises(SchemaRegistryError) as caught:
        client.register_schema(subject, Schema(ORDER.replace("long", "string"), "AVRO"))
    refused(caught, 409, 409)
    client.set_config(subject, ServerConfig(compatibility=ConfigCompatibilityLevel.FULL))
    assert client.get_config(subject).compatibility_level == "FULL"
    assert client.get_config().compatibility_level == "BACKWARD"
    client.set_compatibility(subject, "NONE")
    assert client.get_compatibility(subject) == "NONE"
    client.register_schema(subject, Schema(ORDER.replace("long", "string"), "AVRO"))
    assert client.delete_version(subject, 2) == 2
    assert client.delete_subject(subject) == [1]
    assert client.delete_subject(subject, permanent=True) == [1, 2]
    with pytest.raises(SchemaRegistryError) as caught:
        client.get_versions(subject)
    refused(caught, 404, 40401)


def test_references_and_metadata(client: SchemaRegistryClient) -> None:
    address = '{"type":"record","name":"Address","fields":[{"name":"street","type":"string"}]}'
    client.register_schema("address", Schema(address, "AVRO"))
    person = '{"type":"record","name":"Person","fields":[{"name":"home","type":"Address"}]}'
    schema = Schema(person, "AVRO", [SchemaReference("Address", "address", 1)])
    registered = client.register_schema_full_response("person", schema)
    found = client.get_version("person", 1)

    assert found.schema.references == [SchemaReference("Address", "address", 1)]
    assert found.schema_id == registered.schema_id
    assert client.get_schema_by_guid(str(registered.guid)).schema_str == person


def test_avro(broker: Broker, client: SchemaRegistryClient) -> None:
    serializer = AvroSerializer(client, ORDER)
    written = serializer({"id": 7}, VALUE)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce("orders", written)
    assert producer.flush(30) == 0
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    message = consumer.poll(30)
    consumer.close()
    assert message is not None
    reader = AvroDeserializer(client, ORDER_WITH_NOTE)

    assert reader(message.value(), VALUE) == {"id": 7, "note": ""}


def test_json_schema(client: SchemaRegistryClient) -> None:
    text = '{"type":"object","title":"T","properties":{"id":{"type":"integer"}},"required":["id"]}'
    context = SerializationContext("json-orders", MessageField.VALUE)
    written = JSONSerializer(text, client)({"id": 7}, context)

    assert JSONDeserializer(text, schema_registry_client=client)(written, context) == {"id": 7}
    assert JSONDeserializer(None, schema_registry_client=client)(written, context) == {"id": 7}


def order_class() -> Any:
    """As protoc makes it of a .proto file with an import, a map, an enum, a oneof and a nested message."""
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    order = file.message_type.add(name="Order")
    kinds = descriptor_pb2.FieldDescriptorProto
    order.field.add(name="id", number=1, type=kinds.TYPE_INT64, label=kinds.LABEL_OPTIONAL)
    at = order.field.add(name="at", number=2, type=kinds.TYPE_MESSAGE, label=kinds.LABEL_OPTIONAL)
    at.type_name = ".google.protobuf.Timestamp"
    entry = order.nested_type.add(name="TagsEntry")
    entry.options.map_entry = True
    for number, name in enumerate(("key", "value"), 1):
        entry.field.add(name=name, number=number, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    tags = order.field.add(name="tags", number=3, type=kinds.TYPE_MESSAGE, label=kinds.LABEL_REPEATED)
    tags.type_name = ".shop.Order.TagsEntry"
    order.oneof_decl.add(name="paid")
    order.field.add(name="card", number=4, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL, oneof_index=0)
    pool = descriptor_pool.DescriptorPool()
    for each in (Timestamp.DESCRIPTOR.file.serialized_pb, file.SerializeToString()):
        pool.AddSerializedFile(each)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def test_protobuf(broker: Broker, client: SchemaRegistryClient) -> None:
    order = order_class()
    message = order(id=7, tags={"a": "b"}, card="c")
    message.at.seconds = 9
    context = SerializationContext("proto", MessageField.VALUE)
    settings = {"use.deprecated.format": False}
    written = ProtobufSerializer(order, client, settings)(message, context)
    reader = ProtobufDeserializer(order, settings, client)
    # A client that knows nothing yet: registered again, a descriptor is the schema that it was.
    with SchemaRegistryClient({"url": broker.http_url}) as other:
        again = ProtobufSerializer(order, other, settings)(message, context)
        later = ProtobufDeserializer(order, settings, other)(written, context)

    assert reader(written, context) == message
    assert again == written
    assert later == message
    assert "map<string, string> tags = 3;" in str(client.get_latest_version("proto-value").schema.schema_str)


def test_async(broker: Broker) -> None:
    async def run() -> None:
        async with AsyncSchemaRegistryClient({"url": broker.http_url}) as client:
            serializer = await AsyncAvroSerializer(client, ORDER)
            written = await serializer({"id": 7}, SerializationContext("async", MessageField.VALUE))
            assert written is not None
            assert written[:1] == b"\x00"
            assert await client.get_versions("async-value") == [1]

    asyncio.run(run())
