"""A minimal client over a plain socket, for requests that no real client would send."""

import socket
from collections.abc import Sequence
from typing import Any, Protocol, Self, TypeVar
from uuid import UUID

from headwater.ids import NO_TOPIC_ID
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.records import Record
from headwater.protocol.messages.cluster.api_versions import ApiVersionsRequest
from headwater.protocol.messages.records.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from headwater.protocol.messages.records.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from headwater.protocol.messages.records.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headwater.protocol.messages.topics.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headwater.protocol.wire.codec import Response, decode, encode, read_response_header, write_request_header
from headwater.protocol.wire.schema import Request

R = TypeVar("R", bound=Response)

# Long enough for a loaded machine; a test that waits this long has failed.
TIMEOUT_S = 20
LATEST, EARLIEST = -1, -2

MIB = 1 << 20


def frame(request: Request, version: int, correlation_id: int = 1, client_id: str | None = "raw") -> bytes:
    out = bytearray(4)
    write_request_header(out, type(request), version, correlation_id, client_id)
    out += encode(request, version)
    out[:4] = (len(out) - 4).to_bytes(4, "big")
    return bytes(out)


class Reachable(Protocol):
    """A broker in this or another process."""

    @property
    def bootstrap_servers(self) -> str: ...


class RawClient:
    def __init__(self, broker: Reachable, *, receive_buffer_bytes: int | None = None) -> None:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        self.socket = socket.socket()
        if receive_buffer_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(TIMEOUT_S)
        try:
            self.socket.connect((host, int(port)))
        except OSError:
            self.socket.close()
            raise
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send_bytes(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send(self, request: Request, version: int) -> int:
        """Sends a request and returns its correlation id."""
        self._correlation_id += 1
        self.send_bytes(frame(request, version, self._correlation_id))
        return self._correlation_id

    def receive_frame(self) -> bytes:
        return self._receive_exactly(int.from_bytes(self._receive_exactly(4), "big"))

    def receive(self, response: type[R], version: int) -> tuple[int, R]:
        data = self.receive_frame()
        correlation_id, position = read_response_header(data, response, version)
        return correlation_id, decode(response, version, data, position)

    def ask(self, request: Request, response: type[R], version: int) -> R:
        sent = self.send(request, version)
        answered, message = self.receive(response, version)
        assert answered == sent
        return message

    def is_closed(self) -> bool:
        """Waits until the broker closes the connection; False if it sends something instead."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def _receive_exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            received = self.socket.recv(size - len(data))
            if not received:
                raise ConnectionResetError("the broker closed the connection")
            data += received
        return bytes(data)

    # -- one-line requests

    def create(self, name: str, partitions: int = 1, **config: str) -> UUID:
        """Settings are named as in Python: `max_message_bytes="10"`."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            assignments=[],
            configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in config.items()],
        )
        (created,) = self.ask(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse, 7).topics
        assert created.error_code == 0, created.error_message
        return created.topic_id

    def produce(
        self, topic: str, records: bytes | None, *, partition: int = 0, acks: int = -1, version: int = 9
    ) -> PartitionProduceResponse:
        response = self.ask(produce_request({topic: {partition: records}}, acks=acks), ProduceResponse, version)
        return response.responses[0].partition_responses[0]

    def fetch(
        self, topic: str, offset: int, *, partition: int = 0, version: int = 12, wait_ms: int = 0, **options: Any
    ) -> PartitionData:
        request = fetch_request({topic: {partition: offset}}, wait_ms=wait_ms, **options)
        response = self.ask(request, FetchResponse, version)
        assert response.error_code == 0
        return response.responses[0].partitions[0]

    def records(self, topic: str, offset: int = 0, *, partition: int = 0) -> list[Record]:
        """Every record from `offset` to the high watermark."""
        found: list[Record] = []
        while True:
            data = self.fetch(topic, offset, partition=partition)
            assert data.error_code == 0
            read = records_of(data)
            found += [record for record in read if record.offset >= offset]
            if not read:
                return found
            offset = read[-1].offset + 1

    def offset(self, topic: str, timestamp: int = LATEST, *, partition: int = 0, version: int = 9) -> int:
        return self.look_up(topic, timestamp, partition=partition, version=version).offset

    def look_up(
        self, topic: str, timestamp: int, *, partition: int = 0, version: int = 9, isolation_level: int = 0
    ) -> ListOffsetsPartitionResponse:
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation_level,
            topics=[
                ListOffsetsTopic(
                    name=topic, partitions=[ListOffsetsPartition(partition_index=partition, timestamp=timestamp)]
                )
            ],
        )
        return self.ask(request, ListOffsetsResponse, version).topics[0].partitions[0]


def produce_request(
    batches_by_topic: dict[str, dict[int, bytes | None]], *, acks: int = -1, **options: Any
) -> ProduceRequest:
    return ProduceRequest(
        acks=acks,
        timeout_ms=10_000,
        topic_data=[
            TopicProduceData(
                name=topic,
                partition_data=[PartitionProduceData(index=index, records=data) for index, data in by_index.items()],
            )
            for topic, by_index in batches_by_topic.items()
        ],
        **options,
    )


def fetch_request(
    offsets: dict[str, dict[int, int]] | dict[UUID, dict[int, int]],
    *,
    wait_ms: int = 0,
    min_bytes: int = 1,
    partition_bytes: int = 1 << 20,
    **options: Any,
) -> FetchRequest:
    topics: list[FetchTopic] = []
    for topic, by_index in offsets.items():
        partitions = [
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=partition_bytes)
            for index, offset in by_index.items()
        ]
        if isinstance(topic, str):
            topics.append(FetchTopic(topic=topic, topic_id=NO_TOPIC_ID, partitions=partitions))
        else:
            topics.append(FetchTopic(topic="", topic_id=topic, partitions=partitions))
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=min_bytes, topics=topics, **options)


def records_of(data: PartitionData) -> list[Record]:
    return [
        record
        for header, batch in batches.iterate(data.records or b"")
        for record in batches.read_records(batch, header, 1 << 28)
    ]


def batch_of(*values: bytes | None, key: bytes | None = b"k", timestamp: int | None = None, **options: Any) -> bytes:
    """A batch as a producer sends it, with one record per value."""
    return batch_of_records(
        [Record(index, NOW_MS if timestamp is None else timestamp, key, value) for index, value in enumerate(values)],
        **options,
    )


def batch_of_records(records: Sequence[Record], **options: Any) -> bytes:
    return bytes(batches.build(records, **options))


NOW_MS = 1_700_000_000_000


def padded(size: int) -> bytes:
    """The request padded to this size; the broker ignores trailing bytes."""
    content = frame(ApiVersionsRequest(), 0)[4:]
    content += bytes(size - 4 - len(content))
    return len(content).to_bytes(4, "big") + content


def fill(client: RawClient, topic: str, mebibytes: int) -> None:
    for _ in range(mebibytes):
        assert client.produce(topic, batch_of(bytes(MIB - 200)), acks=1).error_code == 0
