"""RabbitMQ streams: frames of the stream protocol as the client of its makers encodes them."""

import struct
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from rstream import schema
from rstream.constants import Key, OffsetType
from rstream.encoding import decode_frame, encode_frame, encode_publish

from benchmarks.clients import Outcome
from benchmarks.loads import frames
from benchmarks.loads.requests import RECORD_BYTES, Answers, Client, drive
from benchmarks.loads.streams import BLOCK_RECORDS, consume_all, publish_blocks
from benchmarks.loads.values import values

PUBLISHER = 1
SUBSCRIPTION = 1
# How many chunks of a stream the server sends ahead: what it writes at a time is one.
CREDIT = 10

_KEY = struct.Struct(">HH")
_CONFIRMED = struct.Struct(">BI")
# Subscription, then the chunk: its format and type, entries and records.
_DELIVERED = struct.Struct(">BBBHI")


class Connection:
    """A user who is logged in, as every client must."""

    def __init__(self, address: str) -> None:
        self.socket = frames.connect(address)
        self._correlation = 0
        self.call(lambda number: schema.PeerProperties(number, []))
        self.call(schema.SaslHandshake)
        self.call(lambda number: schema.SaslAuthenticate(number, "PLAIN", b"\0guest\0guest"))
        tune = decode_frame(bytes(self._read()))
        assert isinstance(tune, schema.Tune)
        # Nobody's heart beats while one request takes seconds at most.
        self.send(schema.Tune(tune.frame_max, 0))
        self.call(lambda number: schema.Open(number, "/"))

    def send(self, frame: schema.Frame) -> None:
        self.socket.sendall(encode_frame(frame))

    def call(self, request: Callable[[int], schema.Frame]) -> None:
        """A request that is made with its number; its response must tell of success."""
        self._correlation += 1
        self.send(request(self._correlation))
        decode_frame(bytes(self._read())).check_response_code()

    def receive(self, key: Key) -> bytearray:
        """What the next frame of this kind holds; any other is an error."""
        frame = self._read()
        kind, _ = _KEY.unpack_from(frame)
        if kind != key.value:
            raise RuntimeError(f"the server sent {decode_frame(bytes(frame))} instead of {key.name}")
        return frame[_KEY.size :]

    def declare_publisher(self, stream: str) -> None:
        """Without a name, so that the server looks for no duplicates."""
        self.call(lambda number: schema.DeclarePublisher(number, PUBLISHER, "", stream))

    def confirmed(self) -> int:
        return _CONFIRMED.unpack_from(self.receive(Key.PublishConfirm))[1]

    def _read(self) -> bytearray:
        return frames.read_exactly(self.socket, frames.read_size(self.socket))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()


def create(address: str, stream: str, settings: Mapping[str, str]) -> None:  # noqa: ARG001 (a server has one way)
    with Connection(address) as connection:
        connection.call(lambda number: schema.Create(number, stream, []))


def append_once(address: str, stream: str) -> None:
    with Connection(address) as connection:
        _client(connection, stream)


def append(ready: Callable[[], None], address: str, stream: str, connections: int, seconds: float) -> Answers:
    with ExitStack() as stack:
        connected = [stack.enter_context(Connection(address)) for _ in range(connections)]
        clients = [_client(connection, stream) for connection in connected]
        ready()
        return drive(clients, seconds, RECORD_BYTES)


def publish(ready: Callable[[], None], address: str, stream: str, records: int, record_bytes: int) -> Outcome:
    block = _publish(values(record_bytes, BLOCK_RECORDS))
    with Connection(address) as connection:
        connection.declare_publisher(stream)
        return publish_blocks(ready, connection.socket, block, records, record_bytes, connection.confirmed)


def consume(ready: Callable[[], None], address: str, stream: str, records: int, record_bytes: int) -> Outcome:
    more = encode_frame(schema.Credit(SUBSCRIPTION, 1))

    with Connection(address) as connection:

        def receive(done: int) -> int:
            if not done:
                first = schema.OffsetSpec(OffsetType.FIRST)
                connection.call(lambda number: schema.Subscribe(number, SUBSCRIPTION, stream, first, CREDIT, []))
            *_, count = _DELIVERED.unpack_from(connection.receive(Key.Deliver))
            connection.socket.sendall(more)
            return count

        return consume_all(ready, records, record_bytes, receive)


def _client(connection: Connection, stream: str) -> Client:
    """One that has had its first answer."""
    connection.declare_publisher(stream)
    frame = _publish(values(RECORD_BYTES, 1))
    connection.socket.sendall(frame)
    answer = connection.receive(Key.PublishConfirm)
    return Client(connection.socket, frame, frames.SIZE.size + _KEY.size + len(answer))


def _publish(data: list[bytes]) -> bytes:
    messages = [schema.Message(number, None, value) for number, value in enumerate(data)]
    return encode_publish(schema.Publish(PUBLISHER, messages))
