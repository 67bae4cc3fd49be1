"""Delayed records: how late they appear, and what many pending ones cost."""

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.broker_process import BrokerProcess
from benchmarks.clients import run
from benchmarks.figures import Case, Figure
from benchmarks.loads import delays, frames
from benchmarks.loads.delays import VALUE
from benchmarks.processes import resident_bytes
from benchmarks.scale import Scale
from benchmarks.systems import System
from benchmarks.topics import create_topic
from headwater.client import Cluster
from headwater.client.errors import Refused
from headwater.client.schedule import pending
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.records import Record

TOPIC = "delays"
PARTITIONS = 4
# Deliveries in each second.
RATE = 5000
SECONDS_MIN = 2.0
PENDING_MAX = 1_000_000
BATCH = 1000
DAY_MS = 86_400_000
LOAD_TIMEOUT_S = 60.0
POLL_S = 0.02


def _lateness(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    with system.start(directory) as broker:
        create_topic(broker.address, TOPIC, PARTITIONS, {"headwater.delay.enable": "true"})
        seconds = max(scale.latency_seconds, SECONDS_MIN)
        load = partial(delays.deliver, topic=TOPIC, partitions=PARTITIONS, rate=RATE, seconds=seconds)
        measured = run(broker, partial(load, address=broker.address))
    (late,) = measured.outcomes
    for name, value in (("p50", late.p50_ms), ("p99", late.p99_ms), ("p99.9", late.p999_ms)):
        yield Figure(f"{RATE}/s: {name} late", "ms", value)
    yield Figure(f"{RATE}/s: broker CPU", "s/s", measured.broker.total_s / late.seconds)


def _pending(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    count = min(PENDING_MAX, scale.bulk_records)
    with system.start(directory) as broker:
        create_topic(broker.address, TOPIC, PARTITIONS, {"headwater.delay.enable": "true"})
        # The first record loads what an idle broker does not need.
        _schedule(broker, 1)
        before = resident_bytes(broker.processes)
        started = time.monotonic()
        _schedule(broker, count - 1)
        seconds = time.monotonic() - started
        yield Figure("scheduled, records", "records/s", (count - 1) / seconds)
        yield Figure("pending: memory", "MB", (resident_bytes(broker.processes) - before) / 1e6)
    with system.start(directory) as broker:
        _wait_until_loaded(broker, count)
        yield Figure("pending: start until loaded", "s", time.monotonic() - broker.started)
        yield Figure("pending: memory after a start", "MB", resident_bytes(broker.processes) / 1e6)


def _schedule(broker: BrokerProcess, count: int) -> None:
    due_ms = int(time.time() * 1000) + DAY_MS
    with frames.connect(broker.address) as connection:
        for first in range(0, count, BATCH):
            records = [
                Record(index, due_ms - DAY_MS, b"key", VALUE, (("headwater-deliver-at", b"%d" % (due_ms + index)),))
                for index in range(min(BATCH, count - first))
            ]
            batch = batches.build(records)
            frames.produce_once(connection, frames.produce_frame(TOPIC, first // BATCH % PARTITIONS, batch, -1))


def _wait_until_loaded(broker: BrokerProcess, count: int) -> None:
    deadline = time.monotonic() + LOAD_TIMEOUT_S
    with Cluster(broker.address) as cluster:
        while _pending_count(cluster) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{count} pending records were not loaded")
            time.sleep(POLL_S)


def _pending_count(cluster: Cluster) -> int:
    try:
        return sum(each.record_count for each in pending(cluster, [TOPIC]))
    except Refused:
        # It is being loaded.
        return 0


DELAYS = Case(
    "delays",
    f"delayed records: how late they reach a librdkafka consumer at {RATE} deliveries a second to {PARTITIONS} "
    "partitions",
    _lateness,
    why_headwater_only="Kafka has no delayed records",
)
DELAYS_PENDING = Case(
    "delays-pending",
    "a million records that are due in a day (quick 500,000): how fast they are scheduled, their memory, and the time "
    "from a start until they are loaded",
    _pending,
    why_headwater_only="Kafka has no delayed records",
)
