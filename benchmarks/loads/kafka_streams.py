"""A stream is a topic with one partition: a block is one batch, and one fetch is in flight, as in a Kafka client."""

import socket
from collections.abc import Callable, Mapping

from benchmarks.clients import Outcome
from benchmarks.loads import frames, requests
from benchmarks.loads.requests import RECORD_BYTES, Answers
from benchmarks.loads.streams import BLOCK_RECORDS, consume_all, publish_blocks
from benchmarks.scale import MIB
from benchmarks.topics import create_topic
from headwater.client.errors import check
from headwater.protocol.batches import batch
from headwater.protocol.messages.records.fetch import FetchResponse
from headwater.protocol.messages.records.produce import ProduceResponse

ACKS = -1
# What a Kafka client asks of a partition at a time by default.
FETCH_BYTES = MIB


def create(address: str, stream: str, settings: Mapping[str, str]) -> None:
    create_topic(address, stream, 1, settings)


def append_once(address: str, stream: str) -> None:
    with frames.connect(address) as connection:
        frames.produce_once(connection, frames.produce_frame(stream, 0, frames.record_batch(1, RECORD_BYTES), ACKS))


def append(ready: Callable[[], None], address: str, stream: str, connections: int, seconds: float) -> Answers:
    return requests.produce(ready, address, stream, 1, connections, ACKS, seconds)


def publish(ready: Callable[[], None], address: str, stream: str, records: int, record_bytes: int) -> Outcome:
    block = frames.produce_frame(stream, 0, frames.record_batch(BLOCK_RECORDS, record_bytes), ACKS)
    with frames.connect(address) as connection:
        return publish_blocks(ready, connection, block, records, record_bytes, lambda: _acknowledged(connection))


def consume(ready: Callable[[], None], address: str, stream: str, records: int, record_bytes: int) -> Outcome:
    frame = frames.FetchFrame(stream, 0, bytes_max=FETCH_BYTES)
    with frames.connect(address) as connection:
        return consume_all(ready, records, record_bytes, lambda done: _fetched(connection, frame.at(done)))


def _acknowledged(connection: socket.socket) -> int:
    response = frames.read_exactly(connection, frames.read_size(connection))
    [topic] = frames.read_response(ProduceResponse, frames.PRODUCE_VERSION, response).responses
    [partition] = topic.partition_responses
    check(partition.error_code, f"{topic.name}-{partition.index}", partition.error_message)
    return BLOCK_RECORDS


def _fetched(connection: socket.socket, frame: bytearray) -> int:
    response = frames.exchange(connection, frame)
    [topic] = frames.read_response(FetchResponse, frames.FETCH_VERSION, response).responses
    [partition] = topic.partitions
    check(partition.error_code, f"{topic.topic}-{partition.partition_index}")
    return sum(header.record_count for header, _ in batch.iterate(partition.records or b""))
