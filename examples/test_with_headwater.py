"""How to test your own code against a real broker: `pytest examples/test_with_headwater.py`.

Installing Headwater gives pytest the fixture `headwater_broker`. The broker starts quickly, needs no container, and
ends with the test run.
"""

from confluent_kafka import Consumer, Producer, TopicPartition

from headwater.testing import Broker


def send(bootstrap_servers: str, topic: str, values: list[str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(10) == 0, "every record is acknowledged"


def receive(bootstrap_servers: str, topic: str, count: int) -> list[str]:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "test", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = consumer.consume(count, timeout=10)
    consumer.close()
    return [(message.value() or b"").decode() for message in messages]


def test_what_was_sent_is_received_in_order(headwater_broker: Broker) -> None:
    # One broker serves the whole test run, so each test uses topics of its own.
    send(headwater_broker.bootstrap_servers, "orders", ["first", "second"])

    assert receive(headwater_broker.bootstrap_servers, "orders", 2) == ["first", "second"]


def test_with_a_broker_of_its_own() -> None:
    # A test that needs special settings starts its own broker. Settings have Kafka's names.
    with Broker({"num.partitions": "1", "message.max.bytes": "2000000"}) as broker:
        send(broker.bootstrap_servers, "large", ["x" * 900_000])

        assert receive(broker.bootstrap_servers, "large", 1) == ["x" * 900_000]
