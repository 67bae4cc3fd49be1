"""A queue is a stream and a consumer group of the same name: XADD, XREADGROUP, and one XACK for each entry."""

import os
import socket
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import hiredis

from benchmarks.clients import Outcome
from benchmarks.loads import frames, queues, redis_streams
from benchmarks.loads.queues import TAKEN_MAX, WAIT_MS
from benchmarks.loads.redis_streams import add, command
from benchmarks.loads.streams import MarkCounter
from benchmarks.scale import MIB


def create(address: str, queue: str, settings: Mapping[str, str]) -> None:  # noqa: ARG001 (a server has one way)
    with frames.connect(address) as connection:
        connection.sendall(command(b"XGROUP", b"CREATE", queue.encode(), queue.encode(), b"0", b"MKSTREAM"))
        if (answer := connection.recv(MIB)) != b"+OK\r\n":
            raise RuntimeError(f"the broker refused: {answer!r}")


def publish(ready: Callable[[], None], address: str, queue: str, records: int, record_bytes: int) -> Outcome:
    return redis_streams.publish(ready, address, queue, records, record_bytes)


def publish_at_rate(ready: Callable[[], None], address: str, queue: str, rate: int, seconds: float) -> Outcome:
    with frames.connect(address) as connection:
        acknowledgements = MarkCounter(connection, b"$", b"ERR")
        return queues.publish_at_rate(
            ready, connection, lambda value: add(queue, value), rate, seconds, acknowledgements.receive
        )


@contextmanager
def open_consumer(address: str, queue: str, consumers: int) -> Generator["_Consumer"]:  # noqa: ARG001 (nobody joins)
    with frames.connect(address) as connection:
        yield _Consumer(connection, queue.encode())


class _Consumer:
    def __init__(self, connection: socket.socket, queue: bytes) -> None:
        self._connection = connection
        self._queue = queue
        options = (b"COUNT", b"%d" % TAKEN_MAX, b"BLOCK", b"%d" % WAIT_MS)
        self._read = command(b"XREADGROUP", b"GROUP", queue, b"%d" % os.getpid(), *options, b"STREAMS", queue, b">")
        self._parser = hiredis.Reader()
        self._entries: Sequence[Any] = ()
        self._unconfirmed = 0

    def receive(self) -> Sequence[bytes]:
        self._connection.sendall(self._read)
        # Answers come in order: those of the acknowledgements first.
        self.settle()
        answer = self._answer()
        self._entries = answer[0][1] if answer else ()
        return [value for _, (_, value) in self._entries]

    def acknowledge(self) -> None:
        self._connection.sendall(b"".join(self._acknowledgement(identifier) for identifier, _ in self._entries))
        self._unconfirmed += len(self._entries)

    def settle(self) -> None:
        for _ in range(self._unconfirmed):
            if self._answer() != 1:
                raise RuntimeError("an entry was not this consumer's to acknowledge")
        self._unconfirmed = 0

    def _acknowledgement(self, identifier: bytes) -> bytes:
        return command(b"XACK", self._queue, self._queue, identifier)

    def _answer(self) -> Any:
        while (answer := self._parser.gets()) is False:
            received = self._connection.recv(MIB)
            if not received:
                raise ConnectionError("the broker closed the connection")
            self._parser.feed(received)
        if isinstance(answer, Exception):
            raise answer
        return answer
