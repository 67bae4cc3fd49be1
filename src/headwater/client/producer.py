"""Writes records: accumulates them in one batch per partition, and sends a batch when it is full or on `flush`.

There is no thread and no timer (no linger.ms): a record is sent when later records fill its batch, or by `flush`.
"""

import secrets
from collections.abc import Callable
from types import TracebackType
from typing import Self

from headwater.client.cluster import Cluster
from headwater.client.delivery import ACKS_ALL, DeliveredBatch, Delivery, ProducerIdentity
from headwater.client.errors import ClientError
from headwater.errors import ConfigError
from headwater.ids import TopicName, TopicPartition
from headwater.protocol.batches.compression import Codec
from headwater.protocol.batches.records import Headers, Record
from headwater.protocol.partitioner import partition_for_key

# Far below a broker's default max.message.bytes, and large enough to amortize the cost of a request.
BATCH_BYTES_MAX = 256 * 1024
BATCH_RECORDS_MAX = 10_000
BUFFER_BYTES_MAX = 32 * 1024 * 1024

# Upper bound of the bytes that the lengths and deltas of a record take.
_RECORD_OVERHEAD = 36
_TIMESTAMP_MS_MAX = 2**61


class _Topic:
    """A topic's partitioning. Records without a key go to `sticky_partition` until a batch of it is full."""

    __slots__ = ("name", "partition_count", "sticky_partition")

    def __init__(self, name: TopicName, partition_count: int) -> None:
        self.name = name
        self.partition_count = partition_count
        self.sticky_partition = secrets.randbelow(partition_count)


class _OpenBatch:
    """A batch that still accepts records."""

    __slots__ = ("byte_count", "records")

    def __init__(self) -> None:
        self.byte_count = 0
        self.records: list[Record] = []


class Producer:
    """With acks=-1 (all) the producer is idempotent: batches that are sent again are written once, and in order.

    `on_delivered` is called with every acknowledged batch. A batch that cannot be delivered within `timeout_ms` raises
    ClientError, from the call of `send`, `flush` or `close` that notices it.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        acks: int = ACKS_ALL,
        idempotent: bool | None = None,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        batch_bytes_max: int = BATCH_BYTES_MAX,
        batch_records_max: int = BATCH_RECORDS_MAX,
        buffer_bytes_max: int = BUFFER_BYTES_MAX,
        timeout_ms: int | None = None,
        create_topics: bool = True,
        on_delivered: Callable[[DeliveredBatch], None] | None = None,
        transactional_id: str | None = None,
        new_identity: Callable[[], ProducerIdentity] | None = None,
    ) -> None:
        """The last two are for `TransactionalProducer`, which ends what is begun by a record."""
        if acks not in (0, 1, ACKS_ALL):
            raise ConfigError(f"acks={acks}: only 0, 1 and -1 (all) exist")
        if idempotent and acks != ACKS_ALL:
            raise ConfigError("an idempotent producer needs acks=-1 (all)")
        self._cluster = cluster
        self._batch_bytes_max = batch_bytes_max
        self._batch_records_max = batch_records_max
        self._buffer_bytes_max = buffer_bytes_max
        self._create_topics = create_topics
        self._topics: dict[str, _Topic] = {}
        self._open: dict[tuple[str, int], _OpenBatch] = {}
        self._buffered_bytes = 0
        self._delivery = Delivery(
            cluster,
            acks=acks,
            idempotent=acks == ACKS_ALL if idempotent is None else idempotent,
            codec=codec,
            level=level,
            timeout_ms=cluster.timeout_ms if timeout_ms is None else timeout_ms,
            on_delivered=on_delivered,
            transactional_id=transactional_id,
            new_identity=new_identity,
        )

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Add one record to a batch. Without `partition` the key chooses the partition, and without a key the
        producer."""
        if timestamp_ms is None:
            timestamp_ms = self._cluster.clock.now_ms()
        elif not 0 <= timestamp_ms <= _TIMESTAMP_MS_MAX:
            # Refused here, so that the error concerns this record alone and not its whole batch.
            raise ClientError(f"{timestamp_ms} is no timestamp: it must lie between 0 and {_TIMESTAMP_MS_MAX}")
        known = self._topics.get(topic) or self._look_up(topic)
        if partition is not None:
            chosen = partition
        elif key is not None:
            chosen = partition_for_key(key, known.partition_count)
        else:
            chosen = known.sticky_partition
        size = _RECORD_OVERHEAD + (len(key) if key else 0) + (len(value) if value else 0)
        for name, header in headers:
            size += _RECORD_OVERHEAD + len(name.encode()) + (len(header) if header else 0)
        opened = self._open.get((topic, chosen))
        if opened is not None and (
            opened.byte_count + size > self._batch_bytes_max or len(opened.records) >= self._batch_records_max
        ):
            self._deliver((topic, chosen))
            opened = None
            if partition is None and key is None:
                known.sticky_partition = chosen = (chosen + 1) % known.partition_count
                opened = self._open.get((topic, chosen))
        if opened is None:
            opened = self._begin(known, chosen)
        opened.records.append(Record(len(opened.records), timestamp_ms, key, value, headers))
        opened.byte_count += size
        self._buffered_bytes += size
        if self._buffered_bytes > self._buffer_bytes_max:
            self._deliver(*self._open)

    def flush(self) -> None:
        """Send all batches, and return when every record is acknowledged."""
        self._deliver(*self._open)
        self._delivery.drain()

    def close(self) -> None:
        self.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error nothing more is sent: the caller can no longer know which records that would be.
        if kind is None:
            self.close()

    def _look_up(self, name: str) -> _Topic:
        description = self._cluster.topic(name, create=self._create_topics)
        found = self._topics[name] = _Topic(description.name, len(description.partitions))
        return found

    def _begin(self, topic: _Topic, partition: int) -> _OpenBatch:
        # Looking the topic up once per batch is often enough to notice that it has more partitions.
        description = self._cluster.topic(topic.name)
        topic.partition_count = len(description.partitions)
        topic.sticky_partition %= topic.partition_count
        self._cluster.partition(TopicPartition(topic.name, partition))
        opened = self._open[topic.name, partition] = _OpenBatch()
        return opened

    def _deliver(self, *places: tuple[str, int]) -> None:
        if not places:
            return
        # A failure here is of earlier batches, so it is raised before the open batches are touched.
        self._delivery.make_room()
        accumulated: list[tuple[TopicPartition, list[Record]]] = []
        for topic, partition in places:
            opened = self._open.pop((topic, partition))
            self._buffered_bytes -= opened.byte_count
            accumulated.append((TopicPartition(TopicName(topic), partition), opened.records))
        self._delivery.deliver(accumulated)
