"""Reads given partitions from given offsets, as raw batches or as records, without a group: the caller keeps the
offsets.

Law: the checksum of a batch is verified before the caller gets it, and decompression is bounded.
"""

import select
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from headwater.client.backoff import Backoff
from headwater.client.cluster import Cluster
from headwater.client.connection import BrokerConnection, InFlightRequest
from headwater.client.errors import ClientError, OffsetOutOfRange, Refused, check
from headwater.client.offsets import EARLIEST, LATEST, list_offsets
from headwater.errors import CorruptBatch, ErrorCode
from headwater.ids import NodeId, TopicName, TopicPartition
from headwater.protocol.batches import batch
from headwater.protocol.batches.aborted_record_filter import AbortedRecordFilter
from headwater.protocol.batches.batch import BatchHeader
from headwater.protocol.batches.records import Headers
from headwater.protocol.messages.records.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

WAIT_MS_MAX = 500
FETCH_BYTES_MAX = 50 * 1024 * 1024
# As in Kafka's clients. A larger answer would be evicted from the processor's cache before it is decoded.
PARTITION_BYTES_MAX = 1024 * 1024
DECOMPRESSED_BYTES_MAX = 256 * 1024 * 1024

# From version 13 on, requests name topics by id. This client uses names.
_FETCH_VERSION_MAX = 12


class FetchedBatch(NamedTuple):
    """A batch with a verified checksum. It may begin before `first_offset`, the offset of the fetch."""

    partition: TopicPartition
    header: BatchHeader
    data: memoryview
    first_offset: int


class ConsumedRecord(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True, slots=True)
class _Fetch:
    connection: BrokerConnection
    sent: InFlightRequest[FetchResponse]
    asked: Mapping[TopicPartition, int]
    deadline_ms: int


class Consumer:
    """`positions` holds the next offset of each partition. The caller may change it between two calls.

    `end_offsets` holds, for each partition, the offset up to which the broker last said it can be read. A partition
    that cannot be read for as long as the cluster's time-out raises ClientError. A position that the partition does not
    hold raises OffsetOutOfRange.
    """

    def __init__(
        self,
        cluster: Cluster,
        positions: Mapping[TopicPartition, int],
        *,
        committed_only: bool = False,
        wait_ms_max: int = WAIT_MS_MAX,
        bytes_min: int = 1,
        bytes_max: int = FETCH_BYTES_MAX,
        partition_bytes_max: int = PARTITION_BYTES_MAX,
        decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
    ) -> None:
        self.positions = dict(positions)
        self.end_offsets: dict[TopicPartition, int] = {}
        self._cluster = cluster
        self._committed_only = committed_only
        self._wait_ms_max = wait_ms_max
        self._bytes_min = bytes_min
        self._bytes_max = bytes_max
        self._partition_bytes_max = partition_bytes_max
        self._decompressed_bytes_max = decompressed_bytes_max
        self._fetches: dict[NodeId, _Fetch] = {}
        # Partitions whose last fetch failed, with the error. `_backoff` runs from the first of these failures on.
        self._failing: dict[TopicPartition, ClientError] = {}
        self._backoff: Backoff | None = None

    def poll(self) -> list[ConsumedRecord]:
        """Return the next records, or none if nothing new arrives within `wait_ms_max`."""
        return [record for fetched in self.fetch_batches() for record in self.read(fetched)]

    def read(self, fetched: FetchedBatch) -> list[ConsumedRecord]:
        """Decode the records of a batch, from `first_offset` on."""
        (topic, partition), header, data, first_offset = fetched
        try:
            records = batch.read_records(data, header, self._decompressed_bytes_max)
        except CorruptBatch as error:
            raise ClientError(f"{fetched.partition}, batch at offset {header.base_offset}: {error}") from error
        return [
            ConsumedRecord(topic, partition, record.offset, record.timestamp, record.key, record.value, record.headers)
            for record in records
            if record.offset >= first_offset
        ]

    def fetch_batches(self) -> list[FetchedBatch]:
        """Wait for the first leader that answers, and return its batches without control batches. `positions` moves
        past them."""
        self.send_fetches()
        batches = [fetched for node in self._ready() for fetched in self._receive(node)]
        self._back_off()
        return batches

    # -- requests

    def send_fetches(self) -> None:
        """Send a fetch to every leader that has none in flight. A caller may do so before it processes the last
        batches: the next answers then arrive meanwhile."""
        by_leader: dict[NodeId, dict[TopicPartition, int]] = {}
        for partition, offset in self.positions.items():
            try:
                by_leader.setdefault(self._cluster.leader(partition), {})[partition] = offset
            except ClientError as error:
                self._note_failure([partition], error)
        for node, asked in by_leader.items():
            if node in self._fetches:
                continue
            try:
                connection = self._cluster.node(node)
                sent = connection.send(self._request(asked), FetchResponse, version_max=_FETCH_VERSION_MAX)
            except ClientError as error:
                self._note_failure(asked, error)
                continue
            deadline_ms = self._cluster.clock.monotonic_ms() + self._wait_ms_max + self._cluster.timeout_ms
            self._fetches[node] = _Fetch(connection, sent, asked, deadline_ms)

    def _request(self, asked: Mapping[TopicPartition, int]) -> FetchRequest:
        topics: dict[str, list[FetchPartition]] = {}
        for (topic, index), offset in asked.items():
            topics.setdefault(topic, []).append(
                FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=self._partition_bytes_max)
            )
        return FetchRequest(
            max_wait_ms=self._wait_ms_max,
            min_bytes=self._bytes_min,
            max_bytes=self._bytes_max,
            isolation_level=int(self._committed_only),
            topics=[FetchTopic(topic=name, partitions=partitions) for name, partitions in topics.items()],
        )

    def _ready(self) -> list[NodeId]:
        """Wait for the first answer. Return the leaders whose answers have arrived or are overdue."""
        if len(self._fetches) < 2:
            return list(self._fetches)
        poller = select.poll()
        nodes: dict[int, NodeId] = {}
        ready: list[NodeId] = []
        for node, fetch in self._fetches.items():
            is_late = fetch.deadline_ms <= self._cluster.clock.monotonic_ms()
            if fetch.connection.is_closed or is_late or fetch.connection.has_arrived(fetch.sent):
                ready.append(node)
            else:
                poller.register(fetch.connection, select.POLLIN)
                nodes[fetch.connection.fileno()] = node
        if ready:
            return ready
        return [nodes[descriptor] for descriptor, _ in poller.poll(self._wait_ms_max + self._cluster.timeout_ms)]

    # -- answers

    def _receive(self, node: NodeId) -> Iterator[FetchedBatch]:
        fetch = self._fetches.pop(node)
        try:
            timeout_ms = fetch.deadline_ms - self._cluster.clock.monotonic_ms()
            response = fetch.connection.wait(fetch.sent, timeout_ms=timeout_ms)
            check(response.error_code, f"a fetch from {fetch.connection.endpoint}")
        except ClientError as error:
            self._note_failure(fetch.asked, error)
            return
        for topic in response.responses:
            for data in topic.partitions:
                partition = TopicPartition(TopicName(topic.topic), data.partition_index)
                # The answer is stale if the caller has changed the position or removed the partition meanwhile.
                if partition in fetch.asked and self.positions.get(partition) == fetch.asked[partition]:
                    yield from self._read_partition(partition, data)

    def _read_partition(self, partition: TopicPartition, data: PartitionData) -> Iterator[FetchedBatch]:
        position = self.positions[partition]
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise self._out_of_range(partition, position)
        if data.error_code != ErrorCode.NONE:
            self._note_failure([partition], Refused(data.error_code, f"partition {partition}"))
            return
        self._failing.pop(partition, None)
        self.end_offsets[partition] = data.last_stable_offset if self._committed_only else data.high_watermark
        if not data.records:
            return
        next_offset = position
        aborted = AbortedRecordFilter((self._committed_only and data.aborted_transactions) or ())
        found: list[FetchedBatch] = []
        for header, one in self._verified(partition, data):
            hidden = aborted.hides(header, one) or header.is_control or not header.record_count
            if header.next_offset > position and not hidden:
                found.append(FetchedBatch(partition, header, one, position))
            next_offset = max(next_offset, header.next_offset)
        if next_offset == position:
            raise ClientError(
                f"{partition}: the answer to a fetch at offset {position} holds no whole batch; "
                f"more than {self._partition_bytes_max} bytes must be asked for (partition_bytes_max)"
            )
        # Move the partition to the end of the order, so that under `bytes_max` every partition gets its turn.
        del self.positions[partition]
        self.positions[partition] = next_offset
        yield from found

    def _verified(self, partition: TopicPartition, data: PartitionData) -> Iterator[tuple[BatchHeader, memoryview]]:
        try:
            for header, one in batch.iterate(data.records or b""):
                batch.verify(one, header)
                yield header, one
        except CorruptBatch as error:
            raise ClientError(f"{partition}, fetched at offset {self.positions[partition]}: {error}") from error

    def _out_of_range(self, partition: TopicPartition, position: int) -> OffsetOutOfRange:
        earliest = list_offsets(self._cluster, [partition], EARLIEST)[partition]
        latest = list_offsets(self._cluster, [partition], LATEST)[partition]
        return OffsetOutOfRange(partition, position, earliest, latest)

    # -- failures

    def _note_failure(self, partitions: Iterable[TopicPartition], error: ClientError) -> None:
        """Remember an error that a retry may cure; raise any other."""
        if not self._cluster.should_retry(error):
            raise error
        self._failing.update(dict.fromkeys(partitions, error))

    def _back_off(self) -> None:
        """If partitions are failing, pause before the next round, and have their leaders looked up again in it."""
        if not self._failing:
            self._backoff = None
            return
        self._cluster.forget({partition.topic for partition in self._failing})
        if self._backoff is None:
            self._backoff = self._cluster.backoff(self._cluster.timeout_ms)
        self._backoff.pause(next(iter(self._failing.values())))
