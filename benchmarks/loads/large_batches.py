"""A client that sends nothing but large compressed batches, each as soon as the last is answered."""

import time
from collections.abc import Callable

from benchmarks.clients import Outcome
from benchmarks.loads import frames
from benchmarks.loads.values import values
from benchmarks.processes import Meter
from headwater.protocol.batches import batch
from headwater.protocol.batches.compression import Codec
from headwater.protocol.batches.records import Record

RECORD_BYTES = 100
# Different values in a batch; more of them would compress less.
DISTINCT = 10_000


def produce(
    ready: Callable[[], None], address: str, topic: str, codec: int, decompressed_bytes: int, seconds: float
) -> Outcome:
    records = decompressed_bytes // RECORD_BYTES
    frame = frames.produce_frame(topic, 0, _batch(codec, records), 1)
    with frames.connect(address) as connection:
        frames.produce_once(connection, frame)
        ready()
        meter = Meter.of_this_process()
        started = time.perf_counter()
        sent = 0
        while not sent or time.perf_counter() - started < seconds:
            frames.exchange(connection, frame)
            sent += 1
        elapsed = time.perf_counter() - started
        return Outcome(elapsed, sent * records, sent * decompressed_bytes, meter.read())


def _batch(codec: int, records: int) -> bytearray:
    now_ms = time.time_ns() // 1_000_000
    different = values(RECORD_BYTES, min(records, DISTINCT))
    made = [Record(index, now_ms, None, different[index % len(different)]) for index in range(records)]
    return batch.build(made, codec=Codec(codec))
