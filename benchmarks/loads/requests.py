"""Synchronous clients, many in one thread: each sends its next request, always the same, when the last is answered."""

import select
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

from benchmarks.clients import Outcome
from benchmarks.loads import frames
from benchmarks.processes import Meter

RECORD_BYTES = 100
# Enough for the only response that can be there.
RECEIVE_BYTES = 4096


class Client:
    __slots__ = ("connection", "frame", "missing", "response_bytes")

    def __init__(self, connection: socket.socket, frame: bytes, response_bytes: int) -> None:
        self.connection = connection
        self.frame = frame
        self.response_bytes = response_bytes
        self.missing = 0  # bytes of the response that are still to come


def produce(
    ready: Callable[[], None], address: str, topic: str, partitions: int, connections: int, acks: int, seconds: float
) -> Outcome:
    """Connection `n` writes to partition `n % partitions`; the first request of each is not counted in the rate."""
    batch = frames.record_batch(1, RECORD_BYTES)
    with ExitStack() as stack:
        clients: list[Client] = []
        for index in range(connections):
            connection = stack.enter_context(frames.connect(address))
            frame = frames.produce_frame(topic, index % partitions, batch, acks)
            clients.append(Client(connection, frame, frames.produce_once(connection, frame)))
        ready()
        return drive(clients, seconds, RECORD_BYTES)


def drive(clients: Sequence[Client], seconds: float, record_bytes: int = 0) -> Outcome:
    for client in clients:
        client.connection.setblocking(False)
    meter = Meter.of_this_process()
    started = time.perf_counter()
    with select.epoll() as poll:
        answered = _drive(poll, {client.connection.fileno(): client for client in clients}, started + seconds)
    elapsed = time.perf_counter() - started
    for client in clients:
        client.connection.settimeout(frames.TIMEOUT_S)
    return Outcome(elapsed, answered, answered * record_bytes, meter.read())


def _drive(poll: select.epoll, clients: Mapping[int, Client], deadline: float) -> int:
    """Sends until the deadline, then waits for what is in flight: whatever was sent is counted, once answered."""
    answered = 0
    for descriptor, client in clients.items():
        poll.register(descriptor, select.EPOLLIN)
        client.connection.send(client.frame)
        client.missing = client.response_bytes
    in_flight = len(clients)
    while in_flight:
        events = poll.poll(frames.TIMEOUT_S)
        if not events:
            raise TimeoutError(f"no answer to {in_flight} requests for {frames.TIMEOUT_S:.0f} s")
        more = time.perf_counter() < deadline
        for descriptor, _ in events:
            client = clients[descriptor]
            received = len(client.connection.recv(RECEIVE_BYTES))
            if not received:
                raise ConnectionError("the broker closed the connection")
            client.missing -= received
            if client.missing:
                continue
            answered += 1
            if more:
                client.connection.send(client.frame)
                client.missing = client.response_bytes
            else:
                in_flight -= 1
    return answered
