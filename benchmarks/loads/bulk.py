"""Bulk data with next to no client work: one prebuilt batch over and over, and fetched bytes that are not parsed.

Law: no byte of a record is touched while the clock runs, so that the broker is the limit.
"""

import time
from collections.abc import Callable

from benchmarks.clients import Outcome
from benchmarks.loads import frames
from benchmarks.processes import Meter

BATCH_RECORDS = 100
BATCH_RECORD_BYTES = 1024
# The default number of requests in flight of a client.
WINDOW = 5
RECEIVE_BYTES = 1024 * 1024


def batches_in(bytes_wanted: int) -> int:
    """How many batches hold at least this many bytes of values."""
    return -(-bytes_wanted // (BATCH_RECORDS * BATCH_RECORD_BYTES))


def produce(ready: Callable[[], None], address: str, topic: str, batches: int, acks: int) -> Outcome:
    """Fills partition 0 with `batches` batches."""
    frame = frames.produce_frame(topic, 0, frames.record_batch(BATCH_RECORDS, BATCH_RECORD_BYTES), acks)
    with frames.connect(address) as connection:
        response_bytes = frames.produce_once(connection, frame)
        ready()
        meter = Meter.of_this_process()
        started = time.perf_counter()
        remaining = batches - 1
        for _ in range(min(WINDOW, remaining)):
            connection.sendall(frame)
        for acknowledged in range(remaining):
            frames.read_exactly(connection, response_bytes)
            if acknowledged + WINDOW < remaining:
                connection.sendall(frame)
        seconds = time.perf_counter() - started
    records = remaining * BATCH_RECORDS
    return Outcome(seconds, records, records * BATCH_RECORD_BYTES, meter.read())


def fetch(ready: Callable[[], None], address: str, topic: str, bytes_wanted: int, bytes_per_fetch: int) -> Outcome:
    """Read partition 0, as `produce` filled it, from its start, repeatedly until enough bytes are read."""
    batch_bytes = len(frames.record_batch(BATCH_RECORDS, BATCH_RECORD_BYTES))
    frame = frames.FetchFrame(topic, 0, bytes_max=bytes_per_fetch, wait_ms_max=0)
    buffer = memoryview(bytearray(RECEIVE_BYTES))
    with frames.connect(address) as connection:
        overhead = frames.fetch_once(connection, frame.at(0))
        ready()
        meter = Meter.of_this_process()
        started = time.perf_counter()
        offset = batches = 0
        while batches * batch_bytes < bytes_wanted:
            connection.sendall(frame.at(offset))
            remaining = size = frames.read_size(connection)
            while remaining:
                received = connection.recv_into(buffer[: min(remaining, RECEIVE_BYTES)])
                if not received:
                    raise ConnectionError("the broker closed the connection")
                remaining -= received
            # A broker may cut the last batch short: that one is fetched again.
            fetched = (size - overhead) // batch_bytes
            batches += fetched
            offset = offset + fetched * BATCH_RECORDS if fetched else 0
        seconds = time.perf_counter() - started
    records = batches * BATCH_RECORDS
    return Outcome(seconds, records, records * BATCH_RECORD_BYTES, meter.read())
