"""Synchronous producers, many in one thread: each sends its next one-record request when the last is acknowledged."""

import select
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack

from benchmarks.clients import Outcome
from benchmarks.loads import frames
from benchmarks.processes import Meter

RECORD_BYTES = 100
# Enough for the only response that can be there.
RECEIVE_BYTES = 4096


class _Producer:
    __slots__ = ("connection", "frame", "missing")

    def __init__(self, connection: socket.socket, frame: bytes) -> None:
        self.connection = connection
        self.frame = frame
        self.missing = 0  # bytes of the response that are still to come


def produce(
    ready: Callable[[], None], address: str, topic: str, partitions: int, connections: int, acks: int, seconds: float
) -> Outcome:
    """Connection `n` writes to partition `n % partitions`; the first request of each is not counted in the rate."""
    batch = frames.record_batch(1, RECORD_BYTES)
    with ExitStack() as stack:
        producers: dict[int, _Producer] = {}
        response_bytes = 0
        for index in range(connections):
            connection = stack.enter_context(frames.connect(address))
            frame = frames.produce_frame(topic, index % partitions, batch, acks)
            response_bytes = frames.produce_once(connection, frame)
            connection.setblocking(False)
            producers[connection.fileno()] = _Producer(connection, frame)
        poll = stack.enter_context(select.epoll())
        for descriptor in producers:
            poll.register(descriptor, select.EPOLLIN)
        ready()
        meter = Meter.of_this_process()
        started = time.perf_counter()
        acknowledged = _drive(poll, producers, response_bytes, started + seconds)
        elapsed = time.perf_counter() - started
        return Outcome(elapsed, acknowledged, acknowledged * RECORD_BYTES, meter.read())


def _drive(poll: select.epoll, producers: dict[int, _Producer], response_bytes: int, deadline: float) -> int:
    """Sends until the deadline, then waits for what is in flight: whatever was sent is counted, once acknowledged."""
    acknowledged = 0
    for producer in producers.values():
        producer.connection.send(producer.frame)
        producer.missing = response_bytes
    in_flight = len(producers)
    while in_flight:
        events = poll.poll(frames.TIMEOUT_S)
        if not events:
            raise TimeoutError(f"no answer to {in_flight} requests for {frames.TIMEOUT_S:.0f} s")
        more = time.perf_counter() < deadline
        for descriptor, _ in events:
            producer = producers[descriptor]
            received = len(producer.connection.recv(RECEIVE_BYTES))
            if not received:
                raise ConnectionError("the broker closed the connection")
            producer.missing -= received
            if producer.missing:
                continue
            acknowledged += 1
            if more:
                producer.connection.send(producer.frame)
                producer.missing = response_bytes
            else:
                in_flight -= 1
    return acknowledged
