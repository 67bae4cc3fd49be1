"""Consumers of the REST proxy: alone, and in groups with Kafka clients."""

import base64
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headwater.testing import Broker
from tests.support.http.client import HttpClient
from tests.support.http.inside import services_of
from tests.support.http.rest_consumer import RestConsumer, committed, wait_until, write


def test_subscribe_read_commit(http: HttpClient, topic: str, consumer: Callable[..., RestConsumer]) -> None:
    write(http, topic, {"n": 1}, [2])
    one = consumer(topic, auto_commit_enable="false")
    one.subscribe(topic)

    assert one.ask("GET", "/subscription").json == {"topics": [topic]}
    first = one.records(5_000)
    assert [(each["topic"], each["partition"], each["offset"], each["key"], each["value"]) for each in first] == [
        (topic, 0, 0, None, {"n": 1}),
        (topic, 0, 1, None, [2]),
    ]
    assert one.records() == []
    assert committed(one, topic) is None
    assert one.ask("POST", "/offsets").status == 200
    assert committed(one, topic) == 2
    offsets = {"offsets": [{"topic": topic, "partition": 0, "offset": 0, "metadata": "half"}]}
    assert one.ask("POST", "/offsets", offsets).status == 200
    assert committed(one, topic) == 1, "the record is processed: the group goes on behind it"


def test_another_instance_goes_on_where_the_group_was(
    http: HttpClient, topic: str, consumer: Callable[..., RestConsumer]
) -> None:
    write(http, topic, 1, 2)
    one = consumer(topic)
    one.subscribe(topic)
    assert one.take(2) == [1, 2]
    assert one.delete() == 204
    write(http, topic, 3)

    other = consumer(topic)
    other.subscribe(topic)

    assert other.take(1) == [3]


@pytest.mark.parametrize(("reset", "expected"), [("earliest", [1]), ("latest", [])])
def test_offset_reset(
    http: HttpClient, topic: str, consumer: Callable[..., RestConsumer], reset: str, expected: list[int]
) -> None:
    write(http, topic, 1)
    one = consumer(topic, auto_offset_reset=reset)
    one.assign((topic, 0))

    assert [each["value"] for each in one.records(200)] == expected
    write(http, topic, 2)
    assert one.take(1) == [2]


def test_positions(http: HttpClient, topic: str, consumer: Callable[..., RestConsumer]) -> None:
    write(http, topic, 0, 1, 2)
    one = consumer(topic)
    one.assign((topic, 0))
    place = {"partitions": [{"topic": topic, "partition": 0}]}
    assert one.take(3) == [0, 1, 2]

    assert one.ask("POST", "/positions", {"offsets": [{"topic": topic, "partition": 0, "offset": 1}]}).status == 204
    assert one.take(2) == [1, 2]
    assert one.ask("POST", "/positions/beginning", place).status == 204
    assert one.take(3) == [0, 1, 2]
    assert one.ask("POST", "/positions/beginning", place).status == 204
    assert one.ask("POST", "/positions/end", place).status == 204
    assert one.records() == []
    for path, body in (
        ("/positions", {"offsets": [{"topic": topic, "partition": 1, "offset": 1}]}),
        ("/positions/beginning", {"partitions": [{"topic": "other", "partition": 0}]}),
    ):
        answered = one.ask("POST", path, body)
        assert (answered.status, answered.json["error_code"]) == (409, 40903)


def test_an_offset_that_is_gone_is_reset(http: HttpClient, topic: str, consumer: Callable[..., RestConsumer]) -> None:
    write(http, topic, 0, 1, 2)
    one = consumer(topic)
    one.assign((topic, 0))
    one.ask("POST", "/positions", {"offsets": [{"topic": topic, "partition": 0, "offset": 99}]})

    assert one.take(3) == [0, 1, 2]


def test_max_bytes_and_long_poll(
    http: HttpClient, topic: str, broker: Broker, consumer: Callable[..., RestConsumer]
) -> None:
    for number in range(3):
        write(http, topic, "x" * 1_000 + str(number))
    one = consumer(topic)
    one.assign((topic, 0))

    assert len(one.records(0, max_bytes=100)) == 1
    assert len(one.take(2)) == 2
    with HttpClient(broker) as other:
        writer = threading.Timer(0.2, lambda: write(other, topic, "late"))
        writer.start()
        assert [each["value"] for each in one.records(20_000)] == ["late"]
        writer.join()


def test_a_group_of_rest_consumers_shares_partitions(
    http: HttpClient, new_topic: Callable[..., str], consumer: Callable[..., RestConsumer]
) -> None:
    topic = new_topic(4)
    one, other = consumer(topic), consumer(topic)
    one.subscribe(topic)
    wait_until(lambda: len(one.assignment()) == 4)
    other.subscribe(topic)

    wait_until(lambda: len(one.assignment()) == len(other.assignment()) == 2)
    assert one.assignment() | other.assignment() == {(topic, index) for index in range(4)}
    assert other.delete() == 204
    wait_until(lambda: len(one.assignment()) == 4)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_a_kafka_client(
    http: HttpClient,
    broker: Broker,
    new_topic: Callable[..., str],
    consumer: Callable[..., RestConsumer],
    protocol: str,
) -> None:
    topic = new_topic(4)
    config = {"bootstrap.servers": broker.bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest"}
    kafka = Consumer({**config, "group.protocol": protocol})
    try:
        kafka.subscribe([topic])

        def kafka_has(count: int) -> bool:
            kafka.poll(0.05)
            return len(kafka.assignment()) == count

        wait_until(lambda: kafka_has(4))
        rest = consumer(topic)
        rest.subscribe(topic)

        wait_until(lambda: kafka_has(2) and len(rest.assignment()) == 2)
        theirs = {(each.topic, each.partition) for each in kafka.assignment()}
        assert theirs | rest.assignment() == {(topic, index) for index in range(4)}
        for index in range(4):
            write(http, topic, index, partition=index)
        expected = sorted(index for _, index in rest.assignment())
        assert sorted(rest.take(2)) == expected
        assert rest.delete() == 204
        wait_until(lambda: kafka_has(4))
        behind = kafka.committed([TopicPartition(topic, index) for index in expected])
        assert [each.offset for each in behind] == [1, 1]
    finally:
        kafka.close()


def test_a_pattern(http: HttpClient, new_topic: Callable[..., str], consumer: Callable[..., RestConsumer]) -> None:
    topic = new_topic()
    one = consumer(topic)
    assert one.ask("POST", "/subscription", {"topic_pattern": f"{topic}|{topic}-more"}).status == 204
    write(http, topic, 1)
    assert one.take(1) == [1]
    assert one.ask("GET", "/subscription").json == {"topics": [topic]}

    assert http.post("/v1/topics", {"name": f"{topic}-more", "partitions": 1}).status == 201
    write(http, f"{topic}-more", 2)

    assert one.take(1) == [2]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", "/subscription", {}, 422, 422),
        ("POST", "/subscription", {"topics": ["a"], "topic_pattern": "b"}, 422, 422),
        ("POST", "/subscription", {"topics": "a"}, 422, 422),
        ("POST", "/subscription", {"topic_pattern": "("}, 422, 422),
        ("POST", "/subscription", {"topic_pattern": "(?=x)"}, 422, 422),
        ("POST", "/assignments", {}, 422, 422),
        ("POST", "/assignments", {"partitions": [{"topic": "nothing", "partition": 0}]}, 404, 40401),
        ("POST", "/assignments", {"partitions": [{"topic": "TOPIC", "partition": 7}]}, 404, 40402),
        ("POST", "/assignments", {"partitions": [{"topic": "TOPIC", "partition": 2**31}]}, 422, 422),
        ("POST", "/offsets", {"offsets": [{"topic": "nothing", "partition": 0, "offset": 1}]}, 404, 40401),
        ("POST", "/offsets", {"offsets": [{"topic": "TOPIC", "partition": 0, "offset": -1}]}, 422, 422),
        ("POST", "/offsets", {"offsets": [{"topic": "TOPIC", "partition": 0, "offset": 2**63}]}, 422, 422),
        ("GET", "/offsets", {}, 422, 422),
        ("POST", "/positions", {"offsets": [{"topic": "TOPIC", "partition": 0}]}, 422, 422),
        ("GET", "/records?timeout=x", None, 400, 400),
        ("GET", "/records?max_bytes=9999999999999999999999", None, 400, 400),
        ("GET", "/nothing", None, 404, None),
    ],
)
def test_what_is_refused(
    topic: str, consumer: Callable[..., RestConsumer], method: str, path: str, body: Any, status: int, code: int | None
) -> None:
    sent = None if body is None else json.loads(json.dumps(body).replace("TOPIC", topic))

    answered = consumer(topic).ask(method, path, sent)

    assert answered.status == status, answered.body
    assert answered.json.get("error_code") == code


def test_names_patterns_and_partitions_exclude_each_other(topic: str, consumer: Callable[..., RestConsumer]) -> None:
    one = consumer(topic)
    pattern, names = {"topic_pattern": topic}, {"topics": [topic]}
    partitions = {"partitions": [{"topic": topic, "partition": 0}]}
    one.subscribe(topic)
    for path, body in (("/subscription", pattern), ("/assignments", partitions)):
        answered = one.ask("POST", path, body)
        assert (answered.status, answered.json["error_code"]) == (409, 40903)
    assert one.ask("POST", "/subscription", names).status == 204, "other topics may be chosen"
    assert one.ask("DELETE", "/subscription").status == 204
    assert one.ask("GET", "/subscription").json == {"topics": []}
    assert one.ask("POST", "/assignments", partitions).status == 204
    assert one.ask("POST", "/subscription", names).status == 409


@pytest.mark.parametrize(
    "body",
    [
        {"format": "xml"},
        {"auto.offset.reset": "middle"},
        {"auto.commit.enable": "perhaps"},
        {"fetch.min.bytes": -2},
        {"fetch.min.bytes": "x"},
        {"consumer.request.timeout.ms": 10**20},
        {"name": "a/b"},
        {"name": ".."},
        {"name": "x" * 300},
        {"name": "a\nb"},
    ],
)
def test_a_consumer_that_cannot_be(http: HttpClient, topic: str, body: Any) -> None:
    answered = http.post(f"/consumers/{topic}", body)

    assert (answered.status, answered.json["error_code"]) == (422, 42204)


def test_a_name_is_there_once_in_its_group(http: HttpClient, topic: str) -> None:
    create = lambda group: http.post(f"/consumers/{group}", {"name": "my consumer"})  # noqa: E731

    assert create(topic).json["base_uri"].endswith(f"/consumers/{topic}/instances/my%20consumer")
    assert create(f"{topic}-other").status == 200
    again = create(topic)
    assert (again.status, again.json["error_code"]) == (409, 40902)
    assert http.ask("DELETE", f"/consumers/{topic}/instances/my%20consumer").status == 204
    for method, path in (("DELETE", ""), ("GET", "/records"), ("POST", "/offsets"), ("GET", "/subscription")):
        answered = http.ask(method, f"/consumers/{topic}/instances/my%20consumer{path}")
        assert (answered.status, answered.json["error_code"]) == (404, 40403)
    assert http.ask("DELETE", f"/consumers/{topic}-other/instances/my%20consumer").status == 204


def test_the_format_is_that_of_the_consumer(
    http: HttpClient, topic: str, consumer: Callable[..., RestConsumer]
) -> None:
    write(http, topic, 1)
    one = consumer(topic, "binary")
    one.assign((topic, 0))

    other = one.ask("GET", "/records", accept="application/vnd.kafka.json.v2+json")
    assert (other.status, other.json["error_code"]) == (406, 40601)
    assert one.ask("GET", "/records", accept="text/html").status == 406
    preferred = "application/vnd.kafka.json.v2+json;q=0.5, application/vnd.kafka.binary.v2+json"
    found = one.ask("GET", "/records?timeout=5000", accept=preferred)
    assert found.json[0]["value"] == base64.b64encode(b"1").decode()
    assert one.ask("GET", "/records?timeout=0", accept="*/*").status == 200


@pytest.mark.parametrize(
    ("embedded", "schema", "sent", "shown"),
    [
        (
            "avro",
            {"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "string"]}]},
            {"a": "x"},
            {"a": {"string": "x"}},
        ),
        (
            "protobuf",
            'syntax = "proto3"; message R { int64 big_one = 1; string b = 2; }',
            {"bigOne": 5},
            {"bigOne": "5", "b": ""},
        ),
        ("jsonschema", {"type": "object"}, {"a": 1.5}, {"a": 1.5}),
    ],
)
def test_schemas(
    http: HttpClient,
    broker: Broker,
    topic: str,
    consumer: Callable[..., RestConsumer],
    embedded: str,
    schema: Any,
    sent: Any,
    shown: Any,
) -> None:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    write(http, topic, sent, None, embedded=embedded, value_schema=text)
    one = consumer(topic, embedded)
    one.assign((topic, 0))
    assert one.take(2) == [shown, None]

    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(topic, b"no schema", key=b"\0\0\0\xff\xffx")
    producer.flush()
    broken = one.ask("GET", "/records?timeout=5000")

    assert (broken.status, broken.json["error_code"]) == (422, 422)
    assert f"value deserialization error for format {embedded}: {topic}-0 offset 2" in broken.json["message"]
    one.ask("POST", "/positions", {"offsets": [{"topic": topic, "partition": 0, "offset": 3}]})
    write(http, topic, sent, embedded=embedded, value_schema=text)
    assert one.take(1) == [shown]


def test_a_key_without_a_schema_is_base64(
    http: HttpClient, broker: Broker, topic: str, consumer: Callable[..., RestConsumer]
) -> None:
    write(http, topic, 1, embedded="avro", value_schema='"long"')
    value_id = http.get(f"/subjects/{topic}-value/versions/latest").json["id"]
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for key in (b"plain", b"\0\0\0\0\0\0\0\x07"):
        producer.produce(topic, b"\0" + value_id.to_bytes(4, "big") + b"\x02", key=key)
    producer.flush()
    one = consumer(topic, "avro")
    one.assign((topic, 0))

    keys: list[str | None] = []
    while len(keys) < 3:
        keys += [each["key"] for each in one.records(5_000)]

    assert keys == [None, base64.b64encode(b"plain").decode(), base64.b64encode(b"\0\0\0\0\0\0\0\x07").decode()]


def test_a_client_that_leaves_a_long_poll_loses_nothing(
    http: HttpClient, broker: Broker, topic: str, consumer: Callable[..., RestConsumer]
) -> None:
    one = consumer(topic)
    one.subscribe(topic)
    wait_until(lambda: len(one.assignment()) == 1)
    inside = next(each for each in services_of(broker).proxy.consumers._by_key.values() if each.group_id == topic)
    with HttpClient(broker) as other:
        other.connection.request("GET", f"{one.path}/records?timeout=50000")
        wait_until(lambda: inside.requests_under_way == 1)
    wait_until(lambda: inside.requests_under_way == 0)

    write(http, topic, 1)

    assert one.take(1) == [1]


def test_a_deleted_topic_is_no_trouble(
    http: HttpClient, new_topic: Callable[..., str], consumer: Callable[..., RestConsumer]
) -> None:
    gone, kept = new_topic(), new_topic()
    one = consumer(kept)
    one.assign((gone, 0), (kept, 0))
    write(http, gone, 1)
    assert one.take(1) == [1]

    assert http.ask("DELETE", f"/v1/topics/{gone}").status == 204
    write(http, kept, 2)

    assert one.take(1) == [2]
    assert one.delete() == 204


def test_small_records_that_are_large_in_json_come_in_several_answers(
    http: HttpClient, broker: Broker, topic: str, consumer: Callable[..., RestConsumer]
) -> None:
    nothing = {
        "type": "array",
        "items": {"type": "record", "name": "N", "fields": [{"name": "x" * 200, "type": "null"}]},
    }
    write(http, topic, [], embedded="avro", value_schema=json.dumps(nothing))
    schema_id = http.get(f"/subjects/{topic}-value/versions/latest").json["id"]
    # An array of 2,000 items that take no bytes.
    payload = b"\0" + schema_id.to_bytes(4, "big") + b"\xa0\x1f\0"
    body = {"records": [{"value": base64.b64encode(payload).decode()}] * 200}
    assert http.post(f"/topics/{topic}", body).status == 200
    one = consumer(topic, "avro")
    one.assign((topic, 0))

    sizes: list[int] = []
    values: list[Any] = []
    while len(values) < 201:
        found = [each["value"] for each in one.records(5_000)]
        sizes.append(len(found))
        values += found

    assert len(sizes) > 1
    assert [len(each) for each in values] == [0, *[2_000] * 200]
