"""Synchronous clients, many in one thread: each sends its next request, always the same, when the last is answered."""

import select
import socket
import time
from array import array
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from ssl import SSLWantReadError

from benchmarks.clients import Outcome
from benchmarks.loads import frames
from benchmarks.loads.access import OPEN, Access
from benchmarks.loads.latency import SECOND_NS, Latency, percentile_ms, summarize
from benchmarks.processes import Meter

RECORD_BYTES = 100
# Enough for the only response in flight.
RECEIVE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Answers(Outcome):
    """The number of answered requests of a load, and how long their clients waited."""

    p50_ms: float
    p99_ms: float


class Client:
    __slots__ = ("connection", "frame", "missing", "response_bytes", "sent_ns")

    def __init__(self, connection: socket.socket, frame: bytes, response_bytes: int) -> None:
        self.connection = connection
        self.frame = frame
        self.response_bytes = response_bytes
        self.missing = 0  # bytes of the response that are still to come
        self.sent_ns = 0

    def send(self, now_ns: int) -> None:
        self.connection.send(self.frame)
        self.missing = self.response_bytes
        self.sent_ns = now_ns

    def receive(self) -> bool:
        """Whether the response is complete."""
        try:
            received = len(self.connection.recv(RECEIVE_BYTES))
        except SSLWantReadError:
            # What TLS tells itself, or a part of a record.
            return False
        if not received:
            raise ConnectionError("the broker closed the connection")
        self.missing -= received
        return not self.missing


def produce(
    ready: Callable[[], None],
    address: str,
    topic: str,
    partitions: int,
    connections: int,
    acks: int,
    seconds: float,
    access: Access = OPEN,
) -> Answers:
    """Connection `n` writes to partition `n % partitions`; the first request of each is not counted in the rate."""
    with _connected(address, topic, partitions, connections, acks, access) as clients:
        ready()
        return drive(clients, seconds, RECORD_BYTES)


def produce_at_rate(
    ready: Callable[[], None], address: str, topic: str, connections: int, rate: int, seconds: float
) -> Latency:
    """Open loop: requests are due at a fixed rate, and each goes over an idle connection. If none is idle, the wait
    counts from the moment at which the request was due."""
    with _connected(address, topic, 1, connections, -1) as clients:
        ready()
        meter = Meter.of_this_process()
        latencies = array("q")
        by_connection = {client.connection: client for client in clients}
        idle = deque(clients)
        count, sent = int(rate * seconds), 0
        started_ns = time.monotonic_ns()
        deadline_ns = started_ns + int((seconds + frames.TIMEOUT_S) * SECOND_NS)
        while len(latencies) < count:
            now_ns = time.monotonic_ns()
            if now_ns > deadline_ns:
                raise TimeoutError(f"{len(latencies)} of {count} requests were answered")
            while idle and sent < count and (due_ns := started_ns + sent * SECOND_NS // rate) <= now_ns:
                idle.popleft().send(due_ns)
                sent += 1
            next_ns = started_ns + sent * SECOND_NS // rate if idle and sent < count else deadline_ns
            # epoll rounds its time-out up to milliseconds; select does not.
            timeout_s = max(0.0, (next_ns - time.monotonic_ns()) / SECOND_NS)
            for connection in select.select(by_connection, [], [], timeout_s)[0]:
                client = by_connection[connection]
                if client.receive():
                    latencies.append(time.monotonic_ns() - client.sent_ns)
                    idle.append(client)
        return summarize(latencies, rate, (time.monotonic_ns() - started_ns) / SECOND_NS, meter.read())


@contextmanager
def _connected(
    address: str, topic: str, partitions: int, connections: int, acks: int, access: Access = OPEN
) -> Generator[list[Client]]:
    """Clients that have had their first answer."""
    batch = frames.record_batch(1, RECORD_BYTES)
    with ExitStack() as stack:
        clients: list[Client] = []
        for index in range(connections):
            connection = stack.enter_context(frames.connect(address, access))
            frame = frames.produce_frame(topic, index % partitions, batch, acks)
            clients.append(Client(connection, frame, frames.produce_once(connection, frame)))
        yield clients


def drive(clients: Sequence[Client], seconds: float, record_bytes: int = 0) -> Answers:
    for client in clients:
        client.connection.setblocking(False)
    meter = Meter.of_this_process()
    started = time.perf_counter()
    with select.epoll() as poll:
        latencies = _drive(poll, {client.connection.fileno(): client for client in clients}, started + seconds)
    elapsed = time.perf_counter() - started
    used = meter.read()
    for client in clients:
        client.connection.settimeout(frames.TIMEOUT_S)
    answered = len(latencies)
    ordered = sorted(latencies)
    p50_ms, p99_ms = percentile_ms(ordered, 0.5), percentile_ms(ordered, 0.99)
    return Answers(elapsed, answered, answered * record_bytes, used, p50_ms, p99_ms)


def _drive(poll: select.epoll, clients: Mapping[int, Client], deadline: float) -> Sequence[int]:
    """Sends until the deadline, then waits for what is in flight: whatever was sent is counted, once answered."""
    latencies = array("q")
    for descriptor, client in clients.items():
        poll.register(descriptor, select.EPOLLIN)
        client.send(time.perf_counter_ns())
    in_flight = len(clients)
    while in_flight:
        events = poll.poll(frames.TIMEOUT_S)
        if not events:
            raise TimeoutError(f"no answer to {in_flight} requests for {frames.TIMEOUT_S:.0f} s")
        more = time.perf_counter() < deadline
        for descriptor, _ in events:
            client = clients[descriptor]
            if not client.receive():
                continue
            now_ns = time.perf_counter_ns()
            latencies.append(now_ns - client.sent_ns)
            if more:
                client.send(now_ns)
            else:
                in_flight -= 1
    return latencies
