"""The operations of each protocol's client for the case `peers`, and the loops that they share.

Like the loads of plain sockets: whatever is sent was made before the clock runs, and of what comes back only as much is
looked at as tells how many records it stands for. A client in pure Python would be all that is measured.
"""

import socket
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from benchmarks.clients import Outcome
from benchmarks.loads.requests import RECEIVE_BYTES, Answers, Client
from benchmarks.processes import Meter
from benchmarks.scale import MIB

# Records per block, and blocks in flight: as many as a Kafka client has requests in flight by default.
BLOCK_RECORDS = 500
WINDOW = 5
DEADLINE_S = 120.0


class StreamClient(Protocol):
    """A module of this package for each protocol."""

    def create(self, address: str, stream: str, settings: Mapping[str, str]) -> None: ...

    def append_once(self, address: str, stream: str) -> None:
        """A connection of its own, one record, and its acknowledgement."""
        ...

    def append(self, ready: Callable[[], None], address: str, stream: str, connections: int, seconds: float) -> Answers:
        """Each connection waits for the acknowledgement of its record before it sends the next. Each has sent one
        before the clock runs, which is not in the outcome."""
        ...

    def publish(self, ready: Callable[[], None], address: str, stream: str, records: int, record_bytes: int) -> Outcome:
        """Whole blocks over one connection, until all records are acknowledged."""
        ...

    def consume(self, ready: Callable[[], None], address: str, stream: str, records: int, record_bytes: int) -> Outcome:
        """From the first record on."""
        ...


class MarkedClient(Client):
    """Its response is whole once a mark has been seen so many times, however long it is."""

    __slots__ = ("_mark", "_marks", "_received")

    def __init__(self, connection: socket.socket, frame: bytes, mark: bytes, marks: int = 1) -> None:
        super().__init__(connection, frame, 0)
        self._mark = mark
        self._marks = marks
        self._received = b""

    def send(self, now_ns: int) -> None:
        self._received = b""
        super().send(now_ns)

    def receive(self) -> bool:
        received = self.connection.recv(RECEIVE_BYTES)
        if not received:
            raise ConnectionError("the broker closed the connection")
        self._received += received
        return self._received.count(self._mark) >= self._marks

    def exchange(self) -> bytes:
        """One request outside of the load, and its response."""
        self.send(0)
        while not self.receive():
            pass
        return self._received


class MarkCounter:
    """Counts a mark in what is received, also where it is split."""

    def __init__(self, connection: socket.socket, mark: bytes, error: bytes) -> None:
        self._connection = connection
        self._mark = mark
        self._error = error
        self._rest = b""

    def receive(self) -> int:
        received = self._connection.recv(MIB)
        if not received:
            raise ConnectionError("the broker closed the connection")
        data = self._rest + received
        if self._error in data:
            raise RuntimeError(f"the broker refused: {data[data.index(self._error) :][:200]!r}")
        self._rest = data[len(data) - len(self._mark) + 1 :]
        return data.count(self._mark)


def publish_blocks(
    ready: Callable[[], None],
    connection: socket.socket,
    block: bytes,
    records: int,
    record_bytes: int,
    acknowledged: Callable[[], int],
) -> Outcome:
    """`acknowledged` waits for some acknowledgements and tells how many. A block has `BLOCK_RECORDS` records, and
    `records` is a multiple of that."""
    ready()
    meter = Meter.of_this_process()
    started = time.perf_counter()
    sent = done = 0
    while done < records:
        while sent < records and sent - done <= (WINDOW - 1) * BLOCK_RECORDS:
            connection.sendall(block)
            sent += BLOCK_RECORDS
        done += acknowledged()
        _check_time(started, done, records)
    return Outcome(time.perf_counter() - started, records, records * record_bytes, meter.read())


def consume_all(ready: Callable[[], None], records: int, record_bytes: int, receive: Callable[[int], int]) -> Outcome:
    """`receive` is told how many have come so far, asks for more as it sees fit, and tells how many came."""
    ready()
    meter = Meter.of_this_process()
    started = time.perf_counter()
    done = 0
    while done < records:
        done += receive(done)
        _check_time(started, done, records)
    if done > records:
        raise RuntimeError(f"{records} records were acknowledged, and {done} were read")
    return Outcome(time.perf_counter() - started, records, records * record_bytes, meter.read())


def _check_time(started: float, done: int, records: int) -> None:
    if time.perf_counter() - started > DEADLINE_S:
        raise TimeoutError(f"only {done} of {records} records in time")
