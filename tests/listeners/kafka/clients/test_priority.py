"""confluent-kafka's share consumers and producers with a topic that has priorities: nothing but a header is of ours."""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, ShareConsumer  # pyright: ignore[reportPrivateImportUsage]

from headwater.testing import Broker
from tests.support.kafka.raw_client import RawClient
from tests.support.kafka.raw_groups import SETTINGS
from tests.support.kafka.raw_shares import configure, new_group

DEADLINE_S = 30
COUNT = 600


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(SETTINGS) as broker:
        yield broker


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_plain_clients_get_urgent_records_first(broker: Broker, client: RawClient, codec: str) -> None:
    topic = f"jobs-{codec}"
    client.create(topic, headwater_priority_enable="true", segment_bytes="20000")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5, "compression.type": codec})
    for number in range(COUNT):
        lane = number % 5
        headers: dict[str, str | bytes | None] = {} if lane == 2 else {"headwater-priority": str(lane)}
        producer.produce(topic, b"%d" % number + bytes(100), headers=headers, partition=0)
    assert producer.flush(DEADLINE_S) == 0
    group = new_group(client)
    configure(client, group, share_partition_max_record_locks="100")
    consumer = ShareConsumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "log_level": 0})
    consumer.subscribe([topic])
    found: list[int] = []
    deadline = time.monotonic() + DEADLINE_S
    try:
        while len(found) < COUNT and time.monotonic() < deadline:
            for message in consumer.poll(0.2):
                assert message.error() is None
                found.append(int((message.value() or b"").rstrip(b"\0")))
    finally:
        consumer.close()
    assert sorted(found) == [*range(COUNT)]
    # A member that is slow to acknowledge is given fewer at a time, so that the first ones may end within a fetch.
    first = [number % 5 for number in found[:200]]
    assert first.count(0) > first.count(1) > first.count(2) > first.count(3) + first.count(4)


def test_ordinary_consumers_see_the_order_of_the_log(broker: Broker, client: RawClient) -> None:
    client.create("ordered", headwater_priority_enable="true")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(20):
        producer.produce("ordered", b"%d" % number, headers={"headwater-priority": str(4 - number % 5)}, partition=0)
    assert producer.flush(DEADLINE_S) == 0
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "ordinary", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe(["ordered"])
    found: list[bytes | None] = []
    deadline = time.monotonic() + DEADLINE_S
    try:
        while len(found) < 20 and time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is not None:
                found.append(message.value())
    finally:
        consumer.close()
    assert found == [b"%d" % number for number in range(20)]
