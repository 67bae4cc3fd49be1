"""NATS JetStream: messages with a subject for the acknowledgement, and a pull consumer that acknowledges nothing."""

import json
import socket
from collections.abc import Callable, Mapping
from contextlib import ExitStack

from benchmarks.clients import Outcome
from benchmarks.loads import frames
from benchmarks.loads.requests import RECEIVE_BYTES, RECORD_BYTES, Answers, drive
from benchmarks.loads.streams import BLOCK_RECORDS, WINDOW, MarkCounter, MarkedClient, consume_all, publish_blocks
from benchmarks.loads.values import values

_HELLO = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\nPING\r\n'
_END = b"\r\n"
_ERROR = b'"error"'
# In the acknowledgement of each record; in the subject to which a reader may acknowledge it.
_ACKNOWLEDGED, _DELIVERED = b'"seq":', b" $JS.ACK."


def create(address: str, stream: str, settings: Mapping[str, str]) -> None:  # noqa: ARG001 (a server has one way)
    wanted = {"name": stream, "subjects": [stream], "storage": "file", "num_replicas": 1, "retention": "limits"}
    with _connect(address) as connection:
        _request(connection, f"$JS.API.STREAM.CREATE.{stream}", wanted)


def append_once(address: str, stream: str) -> None:
    with _connect(address) as connection:
        _client(connection, stream)


def append(ready: Callable[[], None], address: str, stream: str, connections: int, seconds: float) -> Answers:
    with ExitStack() as stack:
        connected = [stack.enter_context(_connect(address)) for _ in range(connections)]
        clients = [_client(connection, stream) for connection in connected]
        ready()
        return drive(clients, seconds, RECORD_BYTES)


def publish(ready: Callable[[], None], address: str, stream: str, records: int, record_bytes: int) -> Outcome:
    with _connect(address) as connection:
        inbox = _inbox(connection)
        block = b"".join(_message(stream, value, inbox) for value in values(record_bytes, BLOCK_RECORDS))
        acknowledgements = MarkCounter(connection, _ACKNOWLEDGED, _ERROR)
        return publish_blocks(ready, connection, block, records, record_bytes, acknowledgements.receive)


def consume(ready: Callable[[], None], address: str, stream: str, records: int, record_bytes: int) -> Outcome:
    with _connect(address) as connection:
        name = f"reader-{connection.getsockname()[1]}"
        wanted = {"name": name, "ack_policy": "none", "deliver_policy": "all", "replay_policy": "instant"}
        creation = {"stream_name": stream, "config": wanted}
        _request(connection, f"$JS.API.CONSUMER.CREATE.{stream}.{name}", creation)
        reader = _Reader(connection, f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}", records)
        return consume_all(ready, records, record_bytes, reader.receive)


class _Reader:
    """Keeps as many requests for a block as a producer has blocks in flight."""

    def __init__(self, connection: socket.socket, subject: str, records: int) -> None:
        self._connection = connection
        self._subject = subject
        self._records = records
        self._asked = 0
        self._inbox = _inbox(connection)
        self._counter = MarkCounter(connection, _DELIVERED, b"NATS/1.0")

    def receive(self, done: int) -> int:
        while self._asked < self._records and self._asked - done <= (WINDOW - 1) * BLOCK_RECORDS:
            count = min(BLOCK_RECORDS, self._records - self._asked)
            self._connection.sendall(_message(self._subject, b'{"batch":%d}' % count, self._inbox))
            self._asked += count
        return self._counter.receive()


def _connect(address: str) -> socket.socket:
    connection = frames.connect(address)
    connection.sendall(_HELLO)
    received = b""
    while b"PONG\r\n" not in received:
        data = connection.recv(RECEIVE_BYTES)
        if not data:
            raise ConnectionError(f"the server refused: {received!r}")
        received += data
    return connection


def _inbox(connection: socket.socket) -> str:
    """A subject that only this connection subscribes to, whose port nobody else has."""
    inbox = f"_INBOX.{connection.getsockname()[1]}"
    connection.sendall(f"SUB {inbox} 1\r\n".encode())
    return inbox


def _client(connection: socket.socket, stream: str) -> MarkedClient:
    """One that has had its first answer."""
    frame = _message(stream, values(RECORD_BYTES, 1)[0], _inbox(connection))
    client = MarkedClient(connection, frame, b"}\r\n")
    answer = client.exchange()
    if _ACKNOWLEDGED not in answer or _ERROR in answer:
        raise RuntimeError(f"the server refused: {answer!r}")
    return client


def _request(connection: socket.socket, subject: str, body: Mapping[str, object]) -> None:
    inbox = f"_INBOX.{connection.getsockname()[1]}.api"
    connection.sendall(f"SUB {inbox} 2\r\n".encode())
    answer = MarkedClient(connection, _message(subject, json.dumps(body).encode(), inbox), b"}\r\n").exchange()
    if _ERROR in answer:
        raise RuntimeError(f"the server refused: {answer!r}")


def _message(subject: str, payload: bytes, reply: str) -> bytes:
    return f"PUB {subject} {reply} {len(payload)}\r\n".encode() + payload + _END
