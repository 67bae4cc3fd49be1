"""Requests as bytes, made before the clock runs, and the plain sockets that carry them.

The versions are ones that every Kafka 4.x broker accepts and whose responses have a size that is known beforehand.
"""

import socket
import struct
import time
from random import Random
from typing import TypeVar

from benchmarks.loads.access import OPEN, Access
from benchmarks.topics import retrying
from headwater import tcp
from headwater.client.errors import check
from headwater.endpoint import Endpoint
from headwater.protocol.batches import batch
from headwater.protocol.batches.records import Record
from headwater.protocol.messages.records.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from headwater.protocol.messages.records.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headwater.protocol.messages.security.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from headwater.protocol.messages.security.sasl_handshake import SaslHandshakeRequest
from headwater.protocol.wire.codec import Request, Response, decode, encode, read_response_header, write_request_header
from headwater.security import plain
from headwater.security.mechanisms import PLAIN

PRODUCE_VERSION = 10
SASL_VERSION = 1
FETCH_VERSION = 11
CLIENT_ID = "benchmark"
TIMEOUT_S = 30.0

ResponseT = TypeVar("ResponseT", bound=Response)

SIZE = struct.Struct(">i")
_OFFSET = struct.Struct(">q")
# A placeholder for the fetch offset, whose position in the encoded bytes is then found by search.
_OFFSET_MARK = 0x0123456789ABCDEF


def request_frame(request: Request, version: int) -> bytes:
    frame = bytearray(SIZE.size)
    write_request_header(frame, type(request), version, 0, CLIENT_ID)
    frame += encode(request, version)
    SIZE.pack_into(frame, 0, len(frame) - SIZE.size)
    return bytes(frame)


def record_batch(records: int, record_bytes: int) -> bytearray:
    """Records without keys and with incompressible values; the same bytes in every run."""
    random = Random(1)
    now_ms = time.time_ns() // 1_000_000
    return batch.build([Record(index, now_ms, None, random.randbytes(record_bytes)) for index in range(records)])


def produce_frame(topic: str, partition: int, records: bytearray, acks: int) -> bytes:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=records)])
    return request_frame(ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=[data]), PRODUCE_VERSION)


class FetchFrame:
    """A fetch of one partition, whose offset can be set again and again."""

    def __init__(
        self, topic: str, partition: int, *, bytes_max: int, wait_ms_max: int = 500, isolation_level: int = 0
    ) -> None:
        asked = FetchPartition(partition=partition, fetch_offset=_OFFSET_MARK, partition_max_bytes=bytes_max)
        request = FetchRequest(
            max_wait_ms=wait_ms_max,
            min_bytes=1,
            max_bytes=bytes_max,
            isolation_level=isolation_level,
            topics=[FetchTopic(topic=topic, partitions=[asked])],
        )
        self._frame = bytearray(request_frame(request, FETCH_VERSION))
        self._position = self._frame.index(_OFFSET.pack(_OFFSET_MARK))

    def at(self, offset: int) -> bytearray:
        _OFFSET.pack_into(self._frame, self._position, offset)
        return self._frame


def connect(address: str, access: Access = OPEN) -> socket.socket:
    connected = socket.create_connection(Endpoint.parse(address), TIMEOUT_S)
    tcp.prepare(connected)
    connected = access.wrap(connected)
    if access.user:
        exchange(connected, request_frame(SaslHandshakeRequest(mechanism=PLAIN), SASL_VERSION))
        message = SaslAuthenticateRequest(auth_bytes=plain.encode(access.user, access.password))
        answer = exchange(connected, request_frame(message, SASL_VERSION))
        decoded = read_response(SaslAuthenticateResponse, SASL_VERSION, answer)
        check(decoded.error_code, access.user, decoded.error_message)
    return connected


def read_size(connection: socket.socket) -> int:
    """The length of the response that follows."""
    return SIZE.unpack(read_exactly(connection, SIZE.size))[0]


def read_exactly(connection: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    with memoryview(data) as view:
        position = 0
        while position < size:
            received = connection.recv_into(view[position:])
            if not received:
                raise ConnectionError("the broker closed the connection")
            position += received
    return data


def exchange(connection: socket.socket, frame: bytes | bytearray) -> bytearray:
    """One request and its response, without the response's length."""
    connection.sendall(frame)
    return read_exactly(connection, read_size(connection))


def read_response(kind: type[ResponseT], version: int, response: bytearray) -> ResponseT:
    _, position = read_response_header(response, kind, version)
    return decode(kind, version, response, position)


def produce_once(connection: socket.socket, frame: bytes) -> int:
    """Checks that the broker accepts the request; gives the size of each such response, its length included."""
    return retrying(lambda: _produce_once(connection, frame), TIMEOUT_S)


def _produce_once(connection: socket.socket, frame: bytes) -> int:
    response = exchange(connection, frame)
    decoded = read_response(ProduceResponse, PRODUCE_VERSION, response)
    for topic in decoded.responses:
        for partition in topic.partition_responses:
            check(partition.error_code, f"{topic.name}-{partition.index}", partition.error_message)
    return len(response) + SIZE.size


def fetch_once(connection: socket.socket, frame: bytearray) -> int:
    """Checks that the broker serves whole batches; gives the bytes of the response that are not records."""
    response = exchange(connection, frame)
    decoded = read_response(FetchResponse, FETCH_VERSION, response)
    served = decoded.responses[0].partitions[0]
    check(served.error_code, f"{decoded.responses[0].topic}-{served.partition_index}")
    records = served.records
    if records is None:
        return len(response)
    for header, whole in batch.iterate(records):
        batch.verify(whole, header)
    return len(response) - len(records)
