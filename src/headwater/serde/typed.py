"""Producers and consumers of values instead of bytes."""

from collections.abc import Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

from headwater.client.consumer import ConsumedRecord
from headwater.client.producer import Producer
from headwater.protocol.batches.records import Headers
from headwater.serde.serde import Context, Serde, Side

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


class TypedRecord(NamedTuple, Generic[K, V]):
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: K | None
    value: V | None
    headers: Headers


class TypedProducer(Generic[K, V]):
    """Writes values with serdes. The producer stays the caller's: it is flushed and closed there."""

    def __init__(self, producer: Producer, *, key: Serde[K], value: Serde[V]) -> None:
        self._producer = producer
        self._key = key
        self._value = value

    def send(
        self,
        topic: str,
        value: V | None,
        *,
        key: K | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        self._producer.send(
            topic,
            None if value is None else self._value.serialize(value, Context(topic, "value", headers)),
            key=None if key is None else self._key.serialize(key, Context(topic, "key", headers)),
            headers=headers,
            partition=partition,
            timestamp_ms=timestamp_ms,
        )


def typed_records(records: Iterable[ConsumedRecord], *, key: Serde[K], value: Serde[V]) -> Iterator[TypedRecord[K, V]]:
    """What a `Consumer` or `GroupConsumer` gave, with keys and values deserialized."""
    for record in records:
        yield TypedRecord(
            *record[:4],
            _read(key, "key", record.key, record),
            _read(value, "value", record.value, record),
            record.headers,
        )


def _read(serde: Serde[T], side: Side, data: bytes | None, record: ConsumedRecord) -> T | None:
    return None if data is None else serde.deserialize(data, Context(record.topic, side, record.headers))
