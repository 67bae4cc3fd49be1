"""End-to-end latency: from the moment a record was due to be sent until a consumer has it.

Open loop: records are due at a fixed rate whatever the broker does, so that a stall is seen by every record that it
delays. Times of `monotonic_ns` compare between processes of one machine.
"""

import select
import socket
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.loads import frames

RECORD_BYTES = 100
FETCH_BYTES = 1024 * 1024
RECEIVE_BYTES = 64 * 1024
# So many one-record requests leave at once after a stall; acknowledgements are read before the next ones.
BURST_MAX = 256
SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Latency:
    p50_ms: float
    p99_ms: float
    p999_ms: float


def summarize(latencies_ns: Sequence[int], rate: int) -> Latency:
    """Leaves out the first fifth, at most a second of it: until then caches fill and threads start."""
    warm = sorted(latencies_ns[min(rate, len(latencies_ns) // 5) :])

    def at(share: float) -> float:
        return warm[min(len(warm) - 1, int(len(warm) * share))] / 1e6

    return Latency(at(0.5), at(0.99), at(0.999))


def produce_and_fetch(
    ready: Callable[[], None], address: str, topic: str, rate: int, seconds: float, acks: int
) -> Latency:
    """One thread with two plain connections: every record is a request of its own, and a long poll waits for it.

    Offsets follow the order of sending, so that neither side has to look into a record to know which one it is.
    """
    count = int(rate * seconds)
    batch = frames.record_batch(1, RECORD_BYTES)
    produce = frames.produce_frame(topic, 0, batch, acks)
    fetch = frames.FetchFrame(topic, 0, bytes_max=FETCH_BYTES)
    with frames.connect(address) as producer, frames.connect(address) as consumer:
        frames.produce_once(producer, produce)
        overhead = frames.fetch_once(consumer, fetch.at(0))
        ready()
        latencies = array("q")
        deadline_ns = time.monotonic_ns() + int((seconds + frames.TIMEOUT_S) * SECOND_NS)
        consumer.sendall(fetch.at(1))
        started_ns = time.monotonic_ns()
        sent = 0
        while len(latencies) < count:
            now_ns = time.monotonic_ns()
            if now_ns > deadline_ns:
                raise TimeoutError(f"{len(latencies)} of {count} records came back")
            due = min(count, (now_ns - started_ns) * rate // SECOND_NS + 1, sent + BURST_MAX)
            if due > sent:
                producer.sendall(produce * (due - sent))
                sent = due
            next_ns = started_ns + sent * SECOND_NS // rate if sent < count else deadline_ns
            readable = _wait(producer, consumer, next_ns)
            if producer in readable and not producer.recv(RECEIVE_BYTES):
                raise ConnectionError("the broker closed the connection")
            if consumer in readable:
                size = frames.read_size(consumer)
                frames.read_exactly(consumer, size)
                arrived_ns = time.monotonic_ns()
                first = len(latencies)
                for index in range(first, first + (size - overhead) // len(batch)):
                    latencies.append(arrived_ns - started_ns - index * SECOND_NS // rate)
                consumer.sendall(fetch.at(1 + len(latencies)))
    return summarize(latencies, rate)


def _wait(producer: socket.socket, consumer: socket.socket, until_ns: int) -> list[socket.socket]:
    # epoll rounds its time-out up to milliseconds; select does not.
    timeout_s = max(0.0, (until_ns - time.monotonic_ns()) / SECOND_NS)
    return select.select([producer, consumer], [], [], timeout_s)[0]
