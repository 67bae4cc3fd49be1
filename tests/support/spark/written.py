"""What a topic holds after a write, as librdkafka reads it."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.transactions.admin import TransactionAdmin
from tests.support.kafka.raw_client import Reachable
from tests.support.kafka.topic_contents import (
    DEADLINE_S,
    POLL_S,
    RECORDS_MAX,
    high_watermark,
    last_stable_offset,
    reader,
)


class Message(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    timestamp_ms: int


def create(broker: Reachable, topic: str, partitions: int = 3, **settings: str) -> None:
    """Settings are named as in Python: `max_message_bytes="1000"`."""
    with Cluster(broker.bootstrap_servers) as cluster:
        values = {name.replace("_", "."): value for name, value in settings.items()}
        Admin(cluster).create_topic(topic, partition_count=partitions, settings=values)


def messages(broker: Reachable, topic: str) -> list[Message]:
    """Those that are committed, once no transaction is open any more."""
    deadline = time.monotonic() + DEADLINE_S
    for partition in range(_partition_count(broker, topic)):
        while last_stable_offset(broker, topic, partition) < high_watermark(broker, topic, partition):
            assert time.monotonic() < deadline, f"a transaction stays open in {topic}-{partition}"
    return seen(broker, topic)


def values(broker: Reachable, topic: str) -> list[str]:
    """As `messages`, in order of their own."""
    return sorted((each.value or b"").decode() for each in messages(broker, topic))


def seen(broker: Reachable, topic: str) -> list[Message]:
    """Those that can be read now, by partition and offset."""
    unread = set(range(_partition_count(broker, topic)))
    found: list[Message] = []
    consumer = reader(broker)
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in unread])
        while unread:
            for message in consumer.consume(RECORDS_MAX, POLL_S):
                each: Any = message
                if each.error() is None:
                    found.append(_message(each))
                elif each.error().code() == KafkaError._PARTITION_EOF:
                    unread.discard(each.partition())
                else:
                    raise KafkaException(each.error())
    finally:
        consumer.close()
    return sorted(found)


def open_transactions(broker: Reachable, application_id: str | None = None) -> list[str]:
    """The transactional ids of an application, or of all, whose end is not decided."""
    with Cluster(broker.bootstrap_servers) as cluster:
        listed = TransactionAdmin(cluster).list_transactions(states=["Ongoing"])
    ids = [str(each.transactional_id) for each in listed]
    return ids if application_id is None else [each for each in ids if each.startswith(f"{application_id}::")]


def _partition_count(broker: Reachable, topic: str) -> int:
    with Cluster(broker.bootstrap_servers) as cluster:
        return len(cluster.topic(topic).partitions)


def _message(found: Any) -> Message:
    return Message(
        found.partition(),
        found.offset(),
        found.key(),
        found.value(),
        tuple(found.headers() or ()),
        found.timestamp()[1],
    )
