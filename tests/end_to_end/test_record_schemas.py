"""Topics whose records must follow a schema, with clients as they come: Kafka's, in transactions, and over HTTP."""

# The serializers are made by a metaclass that hides their arguments.
# pyright: reportCallIssue=false, reportGeneralTypeIssues=false

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.testing import Broker
from tests.support.http.client import HttpClient

ORDER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
JSON_ORDER = '{"title":"Order","type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}'
FULL = {"headwater.value.schema.validation": "full"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"headwater.schemas.enable": "true", "num.partitions": "1"}, http=True) as running:
        yield running


@pytest.fixture(scope="module")
def registry(broker: Broker) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": broker.http_url}) as client:
        yield client


def create(broker: Broker, name: str) -> None:
    with Cluster(broker.bootstrap_servers) as cluster:
        Admin(cluster).create_topic(name, partition_count=1, settings=FULL)


def send(producer: Producer, topic: str, *values: bytes) -> list[int | None]:
    """The error code of each record."""
    errors: list[int | None] = []

    def delivered(error: KafkaError | None, _: object) -> None:
        errors.append(None if error is None else error.code())

    for value in values:
        producer.produce(topic, value, on_delivery=delivered)
    assert producer.flush(20) == 0
    return errors


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_what_serializers_write_is_taken(broker: Broker, registry: SchemaRegistryClient, codec: str) -> None:
    for serializer, topic in (
        (AvroSerializer(registry, ORDER), f"avro-{codec}"),
        (JSONSerializer(JSON_ORDER, registry), f"json-{codec}"),
    ):
        create(broker, topic)
        written: Any = serializer({"id": 7}, SerializationContext(topic, MessageField.VALUE))
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "compression.type": codec})
        assert send(producer, topic, *[written] * 2000) == [None] * 2000
        assert send(producer, topic, written[:5]) == [KafkaError.INVALID_RECORD]
        assert send(producer, topic, b'{"id": 7}') == [KafkaError.INVALID_RECORD]
        assert send(producer, topic, written) == [None]


def test_a_transaction_whose_record_is_refused_is_aborted(broker: Broker, registry: SchemaRegistryClient) -> None:
    create(broker, "paid")
    written: Any = AvroSerializer(registry, ORDER)({"id": 7}, SerializationContext("paid", MessageField.VALUE))

    def begun() -> Producer:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "billing"})
        producer.init_transactions(20)
        producer.begin_transaction()
        return producer

    producer = begun()
    assert send(producer, "paid", b"x") == [KafkaError.INVALID_RECORD]
    with pytest.raises(KafkaException):
        producer.commit_transaction(20)
    producer.abort_transaction(20)
    # librdkafka goes on to count from the refused record, which brokers take for a gap: another producer is needed.
    producer = begun()
    assert send(producer, "paid", written, written) == [None, None]
    producer.commit_transaction(20)
    values: list[bytes] = []
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
    consumer.assign([TopicPartition("paid", 0, OFFSET_BEGINNING)])
    while len(values) < 2:
        message = consumer.poll(20)
        assert message is not None
        values.append(message.value() or b"")
    consumer.close()
    assert values == [written, written]


def test_over_http_the_answer_says_what_is_wrong(broker: Broker, registry: SchemaRegistryClient) -> None:
    create(broker, "posted")
    schema_id = registry.register_schema("posted-value", Schema(JSON_ORDER, "JSON"))
    http = HttpClient(broker)

    def post(content: bytes) -> Any:
        records = [{"value_base64": base64.b64encode(schema_id.to_bytes(5, "big") + content).decode()}]
        return http.ask("POST", "/v1/topics/posted/records", {"records": records})

    assert post(b'{"id": 7}').status == 200
    refused = post(b'{"id": "seven"}')
    assert refused.status in {400, 422}
    assert f"does not follow schema {schema_id} at /id" in refused.body.decode()
    http.connection.close()
