"""confluent-kafka's share consumers: members of a share group that use nothing but the client."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, Message, ShareConsumer  # pyright: ignore[reportPrivateImportUsage]

from headwater.testing import Broker
from tests.support.kafka.raw_client import RawClient, batch_of
from tests.support.kafka.raw_groups import SETTINGS
from tests.support.kafka.raw_shares import configure, new_group, offsets_of

DEADLINE_S = 30
# How long nothing may come before a test takes it that nothing will.
QUIET_S = 1.0


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({**SETTINGS, "group.share.min.record.lock.duration.ms": "1000"}) as broker:
        yield broker


@pytest.fixture
def group(client: RawClient) -> str:
    return new_group(client)


@pytest.fixture
def join(broker: Broker, group: str, topic: str) -> Iterator[Callable[..., ShareConsumer]]:
    with ExitStack() as opened:

        def joined(mode: str = "implicit", **settings: Any) -> ShareConsumer:
            consumer = ShareConsumer(
                {
                    "bootstrap.servers": broker.bootstrap_servers,
                    "group.id": group,
                    "share.acknowledgement.mode": mode,
                    "log_level": 0,
                    **settings,
                }
            )
            opened.callback(consumer.close)
            consumer.subscribe([topic])
            return consumer

        yield joined


def produce(client: RawClient, topic: str, count: int = 10) -> None:
    assert client.produce(topic, batch_of(*(b"%d" % each for each in range(count)))).error_code == 0


def polled(consumer: ShareConsumer, count: int, timeout_s: float = DEADLINE_S) -> list[Message]:
    found: list[Message] = []
    deadline = time.monotonic() + timeout_s
    while len(found) < count and time.monotonic() < deadline:
        found += consumer.poll(0.2)
    for message in found:
        assert message.error() is None
    return found


def offsets(messages: list[Message]) -> list[int | None]:
    return [message.offset() for message in messages]


def test_records_are_accepted_as_they_are_polled(
    client: RawClient, topic: str, group: str, join: Callable[..., ShareConsumer]
) -> None:
    produce(client, topic)
    consumer = join()
    found = polled(consumer, 10)
    assert [(message.offset(), message.value()) for message in found] == [(each, b"%d" % each) for each in range(10)]
    consumer.commit_sync()
    assert offsets_of(client, group) == {(topic, 0): (10, 0)}


def test_a_consumer_says_of_each_record_what_becomes_of_it(
    client: RawClient, topic: str, group: str, join: Callable[..., ShareConsumer]
) -> None:
    produce(client, topic)
    consumer = join("explicit")
    for message in polled(consumer, 10):
        offset = message.offset()
        assert offset is not None
        kinds = (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT)
        consumer.acknowledge(message, kinds[offset % 3])
    consumer.commit_sync()
    again = polled(consumer, 3)
    assert offsets(again) == [1, 4, 7]
    for message in again:
        consumer.acknowledge(message)
    consumer.commit_sync()
    assert offsets_of(client, group) == {(topic, 0): (10, 0)}
    assert polled(consumer, 1, QUIET_S) == []


def test_two_consumers_share_a_partition(client: RawClient, topic: str, join: Callable[..., ShareConsumer]) -> None:
    for _ in range(40):
        produce(client, topic)
    one, other = join(), join()
    found: list[int | None] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(found) < 400 and time.monotonic() < deadline:
        for consumer in (one, other):
            found += offsets(list(consumer.poll(0.2)))
    assert sorted(each for each in found if each is not None) == [*range(400)]


def test_records_of_a_consumer_that_closes_go_to_another(
    client: RawClient, topic: str, join: Callable[..., ShareConsumer]
) -> None:
    produce(client, topic)
    first, second = join("explicit"), join()
    held = polled(first, 10)
    assert offsets(held) == [*range(10)]
    assert polled(second, 1, QUIET_S) == []
    first.close()
    assert offsets(polled(second, 10)) == [*range(10)]


def test_records_that_were_not_acknowledged_in_time_come_back(
    client: RawClient, topic: str, group: str, join: Callable[..., ShareConsumer]
) -> None:
    configure(client, group, share_record_lock_duration_ms="1000")
    produce(client, topic)
    idle, other = join("explicit"), join()
    assert offsets(polled(idle, 10)) == [*range(10)]
    assert offsets(polled(other, 10)) == [*range(10)]
