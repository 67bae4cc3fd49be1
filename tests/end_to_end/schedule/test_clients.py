"""Ordinary clients produce and read delayed records: nothing of ours is needed."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from headwater.testing import Broker
from tests.support.kafka.topic_contents import reader

DEADLINE_S = 60


@pytest.fixture
def broker() -> Any:
    with Broker() as running:
        settings = {"headwater.delay.enable": "true"}
        topics = [NewTopic("orders", 2, 1, config=settings)]
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
        for created in admin.create_topics(topics).values():
            created.result(DEADLINE_S)
        yield running


def produce(producer: Producer, value: bytes, delay_ms: int | None = None, partition: int = 0) -> None:
    headers: Any = None if delay_ms is None else {"headwater-delay-ms": str(delay_ms)}
    producer.produce("orders", value, partition=partition, headers=headers, on_delivery=_delivered)


def _delivered(error: KafkaError | None, _: object) -> None:
    assert error is None, error


def read(broker: Broker, count: int, partitions: int = 1) -> Sequence[tuple[bytes, int]]:
    """Reads so many records, each with the time at which it came."""
    consumer: Consumer = reader(broker)
    found: list[tuple[bytes, int]] = []
    try:
        consumer.assign([TopicPartition("orders", partition, 0) for partition in range(partitions)])
        deadline = time.monotonic() + DEADLINE_S
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} records came"
            for message in consumer.consume(1000, 0.05):
                if message.error() is None:
                    value: Any = message.value()
                    found.append((value, time.time_ns() // 1_000_000))
        return found
    finally:
        consumer.close()


def begin(broker: Broker, **settings: Any) -> Producer:
    return Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5, **settings})


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
def test_many_delays_through_an_idempotent_producer(broker: Broker, codec: str) -> None:
    producer = begin(broker, **{"enable.idempotence": True, "compression.type": codec})
    due_ms: dict[bytes, int] = {}
    for number in range(1000):
        delay_ms = number % 7 * 100
        due_ms[b"%d" % number] = time.time_ns() // 1_000_000 + delay_ms
        produce(producer, b"%d" % number, delay_ms, number % 2)
    producer.flush(DEADLINE_S)

    found = read(broker, 1000, 2)
    assert sorted(value for value, _ in found) == sorted(due_ms)
    assert [value for value, came_ms in found if came_ms < due_ms[value]] == []


def test_in_a_transaction_the_delay_begins_with_the_commit_and_an_abort_cancels(broker: Broker) -> None:
    producer = begin(broker, **{"transactional.id": "scheduler"})
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    produce(producer, b"aborted now")
    produce(producer, b"aborted later", 1)
    producer.flush(DEADLINE_S)
    producer.abort_transaction(DEADLINE_S)

    producer.begin_transaction()
    produce(producer, b"committed later", 300)
    produce(producer, b"committed now")
    producer.flush(DEADLINE_S)
    committed_ms = time.time_ns() // 1_000_000
    producer.commit_transaction(DEADLINE_S)

    (now, _), (later, came_ms) = read(broker, 2)
    assert (now, later) == (b"committed now", b"committed later")
    assert came_ms >= committed_ms + 300


def test_transactions_one_after_the_other(broker: Broker) -> None:
    producer = begin(broker, **{"transactional.id": "scheduler"})
    producer.init_transactions(DEADLINE_S)
    expected: list[bytes] = []
    for number in range(30):
        producer.begin_transaction()
        for each in range(4):
            value = b"%d-%d" % (number, each)
            produce(producer, value, each * 10, each % 2)
            if number % 3:
                expected.append(value)
        if number % 3:
            producer.commit_transaction(DEADLINE_S)
        else:
            producer.flush(DEADLINE_S)
            producer.abort_transaction(DEADLINE_S)

    assert sorted(value for value, _ in read(broker, len(expected), 2)) == sorted(expected)


async def test_aiokafka_reads_over_the_gaps(broker: Broker) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, enable_idempotence=True)
    await producer.start()
    try:
        for number in range(20):
            headers = [("headwater-delay-ms", b"200")] if number % 2 else []
            await producer.send_and_wait("orders", b"%d" % number, partition=0, headers=headers)
    finally:
        await producer.stop()
    consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest")
    await consumer.start()
    try:
        consumer.assign([AioPartition("orders", 0)])
        found = [await asyncio.wait_for(consumer.getone(), DEADLINE_S) for _ in range(20)]
    finally:
        await consumer.stop()
    assert [record.value for record in found[:10]] == [b"%d" % number for number in range(0, 20, 2)]
    assert [record.value for record in found[10:]] == [b"%d" % number for number in range(1, 20, 2)]
