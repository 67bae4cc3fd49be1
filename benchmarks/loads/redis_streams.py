"""Redis Streams: XADD with an identifier of the server's, XREAD from one identifier on."""

import socket
from collections.abc import Callable, Mapping
from contextlib import ExitStack

import hiredis

from benchmarks.clients import Outcome
from benchmarks.loads import frames
from benchmarks.loads.requests import RECORD_BYTES, Answers, drive
from benchmarks.loads.streams import BLOCK_RECORDS, MarkCounter, MarkedClient, consume_all, publish_blocks
from benchmarks.loads.values import values
from benchmarks.scale import MIB

# An identifier as text, and its length before it.
_LINES = 2
# As much as a Kafka client asks of a partition at a time.
_READ_BYTES = MIB


def create(address: str, stream: str, settings: Mapping[str, str]) -> None:
    """The first record makes the stream."""


def append_once(address: str, stream: str) -> None:
    with frames.connect(address) as connection:
        _client(connection, stream)


def append(ready: Callable[[], None], address: str, stream: str, connections: int, seconds: float) -> Answers:
    with ExitStack() as stack:
        connected = [stack.enter_context(frames.connect(address)) for _ in range(connections)]
        clients = [_client(connection, stream) for connection in connected]
        ready()
        return drive(clients, seconds, RECORD_BYTES)


def publish(ready: Callable[[], None], address: str, stream: str, records: int, record_bytes: int) -> Outcome:
    block = b"".join(add(stream, value) for value in values(record_bytes, BLOCK_RECORDS))
    with frames.connect(address) as connection:
        # No identifier holds a dollar or a letter: one begins each answer, the other each refusal.
        acknowledgements = MarkCounter(connection, b"$", b"ERR")
        return publish_blocks(ready, connection, block, records, record_bytes, acknowledgements.receive)


def consume(ready: Callable[[], None], address: str, stream: str, records: int, record_bytes: int) -> Outcome:
    with frames.connect(address) as connection:
        reader = _Reader(connection, stream, max(1, _READ_BYTES // record_bytes))
        return consume_all(ready, records, record_bytes, reader.receive)


class _Reader:
    def __init__(self, connection: socket.socket, stream: str, count: int) -> None:
        self._connection = connection
        self._stream = stream.encode()
        self._count = b"%d" % count
        self._last = b"0-0"
        self._parser = hiredis.Reader()

    def receive(self, done: int) -> int:
        self._connection.sendall(command(b"XREAD", b"COUNT", self._count, b"STREAMS", self._stream, self._last))
        while (answer := self._parser.gets()) is False:
            received = self._connection.recv(MIB)
            if not received:
                raise ConnectionError("the broker closed the connection")
            self._parser.feed(received)
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            raise RuntimeError(f"the stream ends after {done} records")
        [[_, entries]] = answer
        self._last = entries[-1][0]
        return len(entries)


def _client(connection: socket.socket, stream: str) -> MarkedClient:
    """One that has had its first answer."""
    client = MarkedClient(connection, add(stream, values(RECORD_BYTES, 1)[0]), b"\r\n", _LINES)
    client.exchange()
    return client


def add(stream: str, value: bytes) -> bytes:
    return command(b"XADD", stream.encode(), b"*", b"v", value)


def command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
