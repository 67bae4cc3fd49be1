"""Records are written through the REST proxy, and read by a Kafka client."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from headwater.testing import Broker
from tests.support.http.client import Answer, HttpClient

ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None}],
    }
)
PROTO = 'syntax = "proto3"; message Order { int64 id = 1; string note = 2; }'
JSON_SCHEMA = json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]})


def media(embedded: str) -> str:
    return f"application/vnd.kafka.{embedded}.v2+json"


def send(http: HttpClient, path: str, embedded: str, body: Any) -> Answer:
    return http.post(path, body, content_type=media(embedded))


def read_all(broker: Broker, topic: str, count: int) -> list[tuple[int, bytes | None, bytes | None]]:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": f"check-{topic}", "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe([topic])
        found: list[tuple[int, bytes | None, bytes | None]] = []
        while len(found) < count:
            message = consumer.poll(30)
            assert message is not None
            assert message.error() is None, message.error()
            found.append((message.partition() or 0, message.key(), message.value()))
        return found
    finally:
        consumer.close()


def test_binary(broker: Broker, http: HttpClient, topic: str) -> None:
    body = {"records": [{"key": "YQ==", "value": "/wA="}, {"value": None}]}

    answered = send(http, f"/topics/{topic}", "binary", body)

    assert answered.status == 200
    assert answered.headers["content-type"] == "application/vnd.kafka.v2+json"
    assert answered.json == {
        "offsets": [
            {"partition": 0, "offset": 0, "error_code": None, "error": None},
            {"partition": 0, "offset": 1, "error_code": None, "error": None},
        ],
        "key_schema_id": None,
        "value_schema_id": None,
    }
    assert read_all(broker, topic, 2) == [(0, b"a", b"\xff\x00"), (0, None, None)]


def test_json_is_written_as_it_was_sent(broker: Broker, http: HttpClient, topic: str) -> None:
    body = b'{"records": [{"key": "a" , "value": {"n": 1.10,  "big": 123456789012345678901234567890}}, {"value": 0}]}'

    assert http.post(f"/topics/{topic}", body, content_type=media("json")).status == 200

    assert read_all(broker, topic, 2) == [
        (0, b'"a"', b'{"n": 1.10,  "big": 123456789012345678901234567890}'),
        (0, None, b"0"),
    ]


def test_partitions_by_key_by_record_and_by_path(
    broker: Broker, http: HttpClient, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(3)

    records = [{"value": 1, "partition": 2}, {"value": 2, "partition": 0}]
    assert [
        each["partition"] for each in send(http, f"/topics/{topic}", "json", {"records": records}).json["offsets"]
    ] == [2, 0]
    assert send(http, f"/topics/{topic}/partitions/1", "json", {"records": [{"value": 3}]}).json["offsets"][0] == {
        "partition": 1,
        "offset": 0,
        "error_code": None,
        "error": None,
    }
    assert send(http, f"/topics/{topic}/partitions/1", "json", {"records": records}).status == 422


def test_avro_is_what_confluents_deserializer_reads(broker: Broker, http: HttpClient, topic: str) -> None:
    records = [
        {"key": "a", "value": {"id": 1, "note": {"string": "tagged"}}},
        {"value": {"id": 2, "note": "bare"}},
        {"value": {"id": 3}},
        {"value": None},
    ]
    body = {"key_schema": '"string"', "value_schema": ORDER, "records": records}

    answered = send(http, f"/topics/{topic}", "avro", body).json

    found = read_all(broker, topic, 4)
    with SchemaRegistryClient({"url": broker.http_url}) as client:
        read = AvroDeserializer(client)  # pyright: ignore[reportCallIssue]
        field = SerializationContext(topic, MessageField.VALUE)
        assert [read(value, field) for _, _, value in found] == [
            {"id": 1, "note": "tagged"},
            {"id": 2, "note": "bare"},
            {"id": 3, "note": None},
            None,
        ]
    assert found[0][1] == b"\0" + answered["key_schema_id"].to_bytes(4, "big") + b"\x02a"
    assert http.get(f"/subjects/{topic}-value/versions/latest").json["id"] == answered["value_schema_id"]
    assert http.get(f"/subjects/{topic}-key/versions/latest").json["id"] == answered["key_schema_id"]

    again = {"value_schema_id": answered["value_schema_id"], "records": [{"value": {"id": 4}}]}
    assert send(http, f"/topics/{topic}", "avro", again).json["value_schema_id"] == answered["value_schema_id"]


def test_protobuf_and_json_schema(broker: Broker, http: HttpClient, new_topic: Callable[..., str]) -> None:
    first, second = new_topic(), new_topic()

    protobuf = send(
        http, f"/topics/{first}", "protobuf", {"value_schema": PROTO, "records": [{"value": {"id": "7", "note": "x"}}]}
    ).json
    json_schema = send(
        http, f"/topics/{second}", "jsonschema", {"value_schema": JSON_SCHEMA, "records": [{"value": {"id": 7}}]}
    ).json

    head = b"\0" + protobuf["value_schema_id"].to_bytes(4, "big")
    assert read_all(broker, first, 1) == [(0, None, head + b"\0" + b"\x08\x07\x12\x01x")]
    head = b"\0" + json_schema["value_schema_id"].to_bytes(4, "big")
    assert read_all(broker, second, 1) == [(0, None, head + b'{"id":7}')]


@pytest.mark.parametrize(
    ("embedded", "body", "status", "code"),
    [
        ("binary", {"records": [{"value": "%%%"}]}, 400, 400),
        ("binary", {"records": [{"value": "YQ"}]}, 400, 400),
        ("binary", {"records": [{"value": 7}]}, 400, 400),
        ("json", b"{", 400, 400),
        ("json", b"\xff", 400, 400),
        ("json", b'{"records": [{"value": ' + b"[" * 100_000 + b"]" * 100_000 + b"}]}", 400, 400),
        ("json", {}, 422, 422),
        ("json", [], 422, 422),
        ("json", {"records": []}, 422, 422),
        ("json", {"records": {}}, 422, 422),
        ("json", {"records": [7]}, 422, 422),
        ("json", {"records": [{"value": 1, "other": 2}]}, 422, 422),
        ("json", {"records": [{"value": 1}], "other": 2}, 422, 422),
        ("json", {"records": [{"value": 1, "partition": -1}]}, 422, 422),
        ("json", {"records": [{"value": 1, "partition": 2**70}]}, 422, 422),
        ("json", {"records": [{"value": 1, "partition": 99}]}, 404, 40402),
        ("json", {"records": [{"value": n} for n in range(10_001)]}, 422, 422),
        ("avro", {"records": [{"key": "a", "value": None}]}, 422, 42201),
        ("avro", {"records": [{"value": 1}]}, 422, 42202),
        ("avro", {"value_schema": "{", "records": [{"value": 1}]}, 422, 42205),
        ("avro", {"value_schema": '"nothing"', "records": [{"value": 1}]}, 422, 42205),
        ("avro", {"value_schema_id": 2**31, "records": [{"value": 1}]}, 422, 42205),
        ("avro", {"value_schema_id": -1, "records": [{"value": 1}]}, 422, 42205),
        ("avro", {"value_schema_id": 10**30, "records": [{"value": 1}]}, 422, 42205),
        ("avro", {"value_schema": ORDER, "records": [{"value": {"id": "x"}}]}, 422, 42203),
        ("avro", {"value_schema": ORDER, "records": [{"value": {"id": 1, "other": 1}}]}, 422, 42203),
        ("protobuf", {"value_schema": PROTO, "records": [{"value": {"id": []}}]}, 422, 42203),
        ("jsonschema", {"value_schema": JSON_SCHEMA, "records": [{"value": {}}]}, 422, 42203),
    ],
)
def test_what_is_refused(http: HttpClient, topic: str, embedded: str, body: Any, status: int, code: int) -> None:
    answered = http.post(f"/topics/{topic}", body, content_type=media(embedded))

    assert (answered.status, answered.json["error_code"]) == (status, code), answered.body
    assert answered.json["message"]
    assert len(answered.body) < 2_000
    assert http.get(f"/topics/{topic}/partitions/0/offsets").json == {"beginning_offset": 0, "end_offset": 0}


def test_a_schema_of_another_format_is_refused(http: HttpClient, topic: str) -> None:
    made = send(http, f"/topics/{topic}", "avro", {"value_schema": '"long"', "records": [{"value": 1}]}).json

    body = {"value_schema_id": made["value_schema_id"], "records": [{"value": {}}]}

    assert send(http, f"/topics/{topic}", "jsonschema", body).json["error_code"] == 42205


def test_an_incompatible_schema_is_not_registered(http: HttpClient, topic: str) -> None:
    assert send(http, f"/topics/{topic}", "avro", {"value_schema": '"long"', "records": [{"value": 1}]}).status == 200

    answered = send(http, f"/topics/{topic}", "avro", {"value_schema": '"boolean"', "records": [{"value": True}]})

    assert (answered.status, answered.json["error_code"]) == (408, 40801)


@pytest.mark.parametrize("embedded", ["binary", "json", "avro"])
def test_a_topic_that_is_not_there(http: HttpClient, embedded: str) -> None:
    answered = send(http, "/topics/nothing", embedded, {"records": [{"value": None}]})

    assert (answered.status, answered.json["error_code"]) == (404, 40401)


@pytest.mark.parametrize("partition", ["1", "99999999999999999999", "-1", "x", "%C3%9F", "1.0"])
def test_a_partition_that_is_not_there(http: HttpClient, topic: str, partition: str) -> None:
    answered = send(http, f"/topics/{topic}/partitions/{partition}", "json", {"records": [{"value": 1}]})

    assert (answered.status, answered.json["error_code"]) == (404, 40402)


def test_a_record_that_is_too_large_is_refused_alone(http: HttpClient, topic: str) -> None:
    large = base64.b64encode(bytes(2_000_000)).decode()

    answered = send(http, f"/topics/{topic}", "binary", {"records": [{"value": "YQ=="}, {"value": large}]})

    first, second = answered.json["offsets"]
    assert answered.status == 200
    assert (first["offset"], first["error_code"]) == (0, None)
    assert (second["offset"], second["error_code"]) == (None, 1)
    assert "max.message.bytes" in second["error"]


def test_internal_topics_cannot_be_written(http: HttpClient) -> None:
    answered = send(http, "/topics/_schemas", "json", {"records": [{"value": 1}]})

    assert answered.json["offsets"][0]["error_code"] == 1 if answered.status == 200 else answered.status >= 400


def test_large_bodies_are_encoded_beside_the_loop(broker: Broker, http: HttpClient, topic: str) -> None:
    records = [{"value": {"id": number, "note": {"string": "x" * 100}}} for number in range(5_000)]

    answered = send(http, f"/topics/{topic}", "avro", {"value_schema": ORDER, "records": records})

    assert [each["offset"] for each in answered.json["offsets"]] == list(range(5_000))


@pytest.mark.parametrize(
    ("content_type", "accept", "status"),
    [
        ("application/vnd.kafka.json.v2+json", "*/*", 200),
        ("application/vnd.kafka.json.v2+json; charset=utf-8", "application/json", 200),
        ("application/vnd.kafka.json+json", "application/vnd.kafka.json.v2+json", 200),
        ("application/vnd.kafka.json.v2+json", "text/html, application/*;q=0.1", 200),
        ("application/vnd.kafka.json.v2+json", "text/html", 406),
        ("application/vnd.kafka.json.v2+json", "application/json;q=0", 406),
        ("application/vnd.kafka.json.v2+json", "*/*;q=x", 400),
        ("text/plain", "*/*", 415),
        ("application/x-www-form-urlencoded", "*/*", 415),
        ("application/vnd.kafka.xml.v2+json", "*/*", 415),
        ("application/vnd.kafka.json.v3+json", "*/*", 415),
    ],
)
def test_negotiation(http: HttpClient, topic: str, content_type: str, accept: str, status: int) -> None:
    body = json.dumps({"records": [{"value": 1}]}).encode()

    answered = http.post(f"/topics/{topic}", body, content_type=content_type, accept=accept)

    assert answered.status == status
    if status != 200:
        assert answered.json["error_code"] == status


def test_the_type_that_the_client_prefers(http: HttpClient, topic: str) -> None:
    accept = "application/json;q=0.5, application/vnd.kafka.v2+json;q=0.4, application/vnd.kafka+json;q=0.9"

    assert http.get("/topics", accept=accept).headers["content-type"] == "application/vnd.kafka+json"
    assert http.get("/topics", accept="*/*").headers["content-type"] == "application/vnd.kafka.v2+json"
