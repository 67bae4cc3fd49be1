"""Queues: records that several consumers share and acknowledge one by one, and the loops that all protocols share.

As in the loads of streams, what a publisher over a plain socket sends was made before the clock runs.
"""

import socket
import struct
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from multiprocessing.sharedctypes import Synchronized
from typing import Protocol

from benchmarks.clients import Outcome
from benchmarks.loads.latency import RECORD_BYTES, SECOND_NS, Latency, summarize
from benchmarks.processes import Meter
from benchmarks.scale import MIB

# How many records a consumer takes at a time: `max.poll.records` of Java's share consumer.
TAKEN_MAX = 500
# How long a consumer waits for records before it looks whether all are done.
WAIT_MS = 100
DEADLINE_S = 120.0
# Where the moment begins at which a record was due.
TIME = struct.Struct(">q")


class Consumer(Protocol):
    def receive(self) -> Sequence[bytes]:
        """Values of records that are this consumer's until it acknowledges them; none after `WAIT_MS` without any."""
        ...

    def acknowledge(self) -> None:
        """Accept what the last `receive` gave, each record by itself; sent with the next `receive` at the latest."""
        ...

    def settle(self) -> None:
        """Wait until the broker has taken all acknowledgements. The last call."""
        ...


OpenConsumer = Callable[[str, str, int], AbstractContextManager[Consumer]]
"""Takes the address, the queue and the number of consumers that will share it. The consumer is ready to receive."""


class QueueClient(Protocol):
    """A module of this package for each protocol."""

    def create(self, address: str, queue: str, settings: Mapping[str, str]) -> None: ...

    def publish(self, ready: Callable[[], None], address: str, queue: str, records: int, record_bytes: int) -> Outcome:
        """Many records at a time over one connection, until all are acknowledged."""
        ...

    def publish_at_rate(
        self, ready: Callable[[], None], address: str, queue: str, rate: int, seconds: float
    ) -> Outcome:
        """Each value begins with the moment at which it was due."""
        ...

    def open_consumer(self, address: str, queue: str, consumers: int) -> AbstractContextManager[Consumer]: ...


def consume(
    ready: Callable[[], None],
    open_consumer: OpenConsumer,
    address: str,
    queue: str,
    consumers: int,
    records: int,
    record_bytes: int,
    received: "Synchronized[int]",
) -> Outcome:
    """One of the consumers, which together receive so many records. Its time ends with its last acknowledgement."""
    with open_consumer(address, queue, consumers) as consumer:
        ready()
        meter = Meter.of_this_process()
        started = finished = time.perf_counter()
        own = 0
        while received.value < records:
            count = len(consumer.receive())
            if count:
                consumer.acknowledge()
                own += count
                with received.get_lock():
                    received.value += count
                finished = time.perf_counter()
            if time.perf_counter() - started > DEADLINE_S:
                raise TimeoutError(f"only {received.value} of {records} records were received in time")
        is_last = time.perf_counter() - finished < WAIT_MS / 1000
        consumer.settle()
        if is_last:
            finished = time.perf_counter()
        if received.value > records:
            raise RuntimeError(f"{records} records were published, and {received.value} were received")
        return Outcome(finished - started, own, own * record_bytes, meter.read())


def consume_latencies(
    ready: Callable[[], None], open_consumer: OpenConsumer, address: str, queue: str, rate: int, seconds: float
) -> Latency:
    count = int(rate * seconds)
    latencies = array("q")
    with open_consumer(address, queue, 1) as consumer:
        ready()
        meter = Meter.of_this_process()
        started = time.perf_counter()
        while len(latencies) < count:
            values = consumer.receive()
            now_ns = time.monotonic_ns()
            latencies.extend(now_ns - TIME.unpack_from(value)[0] for value in values)
            if values:
                consumer.acknowledge()
            if time.perf_counter() - started > seconds + DEADLINE_S:
                raise TimeoutError(f"only {len(latencies)} of {count} records were received in time")
        consumer.settle()
        return summarize(latencies, rate, time.perf_counter() - started, meter.read())


def publish_at_rate(
    ready: Callable[[], None],
    connection: socket.socket,
    frame: Callable[[bytes], bytes],
    rate: int,
    seconds: float,
    acknowledged: Callable[[], int],
) -> Outcome:
    """`frame` makes one record of a value; `acknowledged` waits for some acknowledgements and tells how many."""
    rest = bytes(RECORD_BYTES - TIME.size)
    count = int(rate * seconds)
    ready()
    meter = Meter.of_this_process()
    started_ns = time.monotonic_ns()
    done = 0
    for index in range(count):
        due_ns = started_ns + index * SECOND_NS // rate
        wait_ns = due_ns - time.monotonic_ns()
        if wait_ns > 0:
            time.sleep(wait_ns / SECOND_NS)
        connection.sendall(frame(TIME.pack(due_ns) + rest))
        # The acknowledgements that are there by now, so that the broker's answers never fill the connection.
        if _has_arrived(connection):
            done += acknowledged()
    while done < count:
        done += acknowledged()
    elapsed_s = (time.monotonic_ns() - started_ns) / SECOND_NS
    return Outcome(elapsed_s, count, count * RECORD_BYTES, meter.read())


def _has_arrived(connection: socket.socket) -> bool:
    try:
        return bool(connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except BlockingIOError:
        return False


def receive_some(connection: socket.socket) -> bytes:
    """What has arrived; nothing after `WAIT_MS`."""
    connection.settimeout(WAIT_MS / 1000)
    try:
        received = connection.recv(MIB)
    except TimeoutError:
        return b""
    finally:
        connection.settimeout(DEADLINE_S)
    if not received:
        raise ConnectionError("the broker closed the connection")
    return received
