"""End-to-end latency: from the moment a record was due to be sent until a consumer has it.

Open loop: records are due at a fixed rate whatever the broker does, so that a stall is seen by every record that it
delays. Times of `monotonic_ns` compare between processes of one machine.
"""

import select
import struct
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.loads import frames
from benchmarks.processes import Meter, Usage
from headwater.protocol.batches import batch

RECORD_BYTES = 100
FETCH_BYTES = 1024 * 1024
RECEIVE_BYTES = 64 * 1024
# A client's default. Records that are due while this many requests are in flight share the next request.
IN_FLIGHT_MAX = 5
BATCH_RECORDS_MAX = 64
SECOND_NS = 1_000_000_000

_INT32 = struct.Struct(">i")
_BATCH_LENGTH_POSITION = 8
_BATCH_COUNT_POSITION = 57


@dataclass(frozen=True, slots=True)
class Latency:
    seconds: float
    client: Usage
    p50_ms: float
    p99_ms: float
    p999_ms: float


def summarize(latencies_ns: Sequence[int], rate: int, seconds: float, client: Usage) -> Latency:
    """Leaves out the first fifth, at most a second of it: until then caches fill and threads start."""
    warm = sorted(latencies_ns[min(rate, len(latencies_ns) // 5) :])
    return Latency(seconds, client, *(percentile_ms(warm, share) for share in (0.5, 0.99, 0.999)))


def percentile_ms(ordered_ns: Sequence[int], share: float) -> float:
    return ordered_ns[min(len(ordered_ns) - 1, int(len(ordered_ns) * share))] / 1e6


def produce_and_fetch(
    ready: Callable[[], None], address: str, topic: str, rate: int, seconds: float, acks: int
) -> Latency:
    """One thread with two plain connections: one for the producer, one for the consumer's long polls.

    Offsets follow the order of sending, so that nobody has to look into a record to know which one it is.
    """
    count = int(rate * seconds)
    batches = [frames.record_batch(size, RECORD_BYTES) for size in range(1, BATCH_RECORDS_MAX + 1)]
    requests = [b"", *(frames.produce_frame(topic, 0, each, acks) for each in batches)]
    fetch = frames.FetchFrame(topic, 0, bytes_max=FETCH_BYTES)
    with frames.connect(address) as producer, frames.connect(address) as consumer:
        ack_bytes = frames.produce_once(producer, requests[1])
        records_position = frames.fetch_once(consumer, fetch.at(0))
        ready()
        meter = Meter.of_this_process()
        latencies = array("q")
        consumer.sendall(fetch.at(1))
        started_ns = time.monotonic_ns()
        deadline_ns = started_ns + int((seconds + frames.TIMEOUT_S) * SECOND_NS)
        sent = awaited_bytes = 0
        while len(latencies) < count:
            now_ns = time.monotonic_ns()
            if now_ns > deadline_ns:
                raise TimeoutError(f"{len(latencies)} of {count} records came back")
            due = min(count, (now_ns - started_ns) * rate // SECOND_NS + 1, sent + BATCH_RECORDS_MAX)
            may_send = awaited_bytes <= (IN_FLIGHT_MAX - 1) * ack_bytes
            if due > sent and may_send:
                producer.sendall(requests[due - sent])
                awaited_bytes += ack_bytes
                sent = due
            # epoll rounds its time-out up to milliseconds; select does not.
            next_ns = started_ns + sent * SECOND_NS // rate if sent < count and may_send else deadline_ns
            timeout_s = max(0.0, (next_ns - time.monotonic_ns()) / SECOND_NS)
            readable = select.select([producer, consumer], [], [], timeout_s)[0]
            if producer in readable:
                received = len(producer.recv(RECEIVE_BYTES))
                if not received:
                    raise ConnectionError("the broker closed the connection")
                awaited_bytes -= received
            if consumer in readable:
                response = frames.read_exactly(consumer, frames.read_size(consumer))
                arrived_ns = time.monotonic_ns()
                first = len(latencies)
                for index in range(first, first + _count_records(response, records_position)):
                    latencies.append(arrived_ns - started_ns - index * SECOND_NS // rate)
                consumer.sendall(fetch.at(1 + len(latencies)))
        return summarize(latencies, rate, (time.monotonic_ns() - started_ns) / SECOND_NS, meter.read())


def _count_records(response: bytearray, position: int) -> int:
    """From the headers of the batches alone; one that was cut short is fetched again."""
    count = 0
    while position + batch.HEADER_SIZE <= len(response):
        length: int = _INT32.unpack_from(response, position + _BATCH_LENGTH_POSITION)[0]
        records: int = _INT32.unpack_from(response, position + _BATCH_COUNT_POSITION)[0]
        position += batch.LOG_OVERHEAD + length
        if position <= len(response):
            count += records
    return count
