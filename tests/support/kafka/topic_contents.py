"""The contents of a topic: committed records, and all records."""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple
from uuid import uuid4

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.support.kafka.raw_client import RawClient, Reachable

Isolation = Literal["read_committed", "read_uncommitted"]

POLL_S = 0.2
# Long enough for a loaded machine; a test that waits this long has failed.
DEADLINE_S = 60
RECORDS_MAX = 10_000
_READ_COMMITTED = 1


class Copy(NamedTuple):
    offset: int
    key: bytes
    value: bytes


def read(
    broker: Reachable, topic: str, partitions: int, isolation: Isolation = "read_committed"
) -> Mapping[int, Sequence[Copy]]:
    """Reads up to the last stable offset or to the high watermark."""
    found: dict[int, list[Copy]] = defaultdict(list)
    unread = set(range(partitions))
    consumer = reader(broker, isolation)
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in unread])
        while unread:
            for message in consumer.consume(RECORDS_MAX, POLL_S):
                place: Any = message.partition()
                error = message.error()
                if error is None:
                    offset: Any = message.offset()
                    found[place].append(Copy(offset, _bytes(message.key()), _bytes(message.value())))
                elif error.code() == KafkaError._PARTITION_EOF:
                    unread.discard(place)
                else:
                    raise KafkaException(error)
    finally:
        consumer.close()
    return {partition: found[partition] for partition in range(partitions)}


def reader(broker: Reachable, isolation: Isolation = "read_committed") -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": f"reader-{uuid4().hex}",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 100,
            "log_level": 0,
        }
    )


def transactional_producer(broker: Reachable, transactional_id: str, **settings: str | int) -> Producer:
    """Settings are named as in Python: `transaction_timeout_ms=1000`."""
    config: dict[str, Any] = {
        "bootstrap.servers": broker.bootstrap_servers,
        "transactional.id": transactional_id,
        # Connections fail when a test kills the broker on purpose.
        "log_level": 0,
        "reconnect.backoff.ms": 10,
        "reconnect.backoff.max.ms": 100,
        "metadata.recovery.strategy": "none",
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    producer = Producer(config)
    producer.init_transactions()
    return producer


def wait_until_stable(broker: Reachable, topic: str) -> None:
    """Waits until no transaction is open; each fetch is a long poll that ends when something changes."""
    deadline = time.monotonic() + DEADLINE_S
    with RawClient(broker) as raw:
        found = raw.fetch(topic, 0, isolation_level=_READ_COMMITTED)
        while found.last_stable_offset < found.high_watermark:
            assert time.monotonic() < deadline, f"{topic} is stable up to {found.last_stable_offset} only"
            found = raw.fetch(topic, found.last_stable_offset, isolation_level=_READ_COMMITTED, wait_ms=500)


def last_stable_offset(broker: Reachable, topic: str, partition: int = 0) -> int:
    with RawClient(broker) as raw:
        return raw.look_up(topic, -1, partition=partition, isolation_level=_READ_COMMITTED).offset


def high_watermark(broker: Reachable, topic: str, partition: int = 0) -> int:
    with RawClient(broker) as raw:
        return raw.offset(topic, partition=partition)


def _bytes(data: bytes | str | None) -> bytes:
    assert isinstance(data, bytes)
    return data
