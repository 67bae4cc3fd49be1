"""Time from process start until the broker serves requests: at first, with many partitions, and after a kill."""

import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.cases.plain_sockets import TOPIC, fill
from benchmarks.figures import Case, Figure
from benchmarks.loads import frames
from benchmarks.processes import resident_bytes
from benchmarks.scale import Scale
from benchmarks.systems import Flush, System
from benchmarks.topics import check_record_count, create_topic

# More partitions than a broker creates in one request within the client's time-out.
TOPIC_PARTITIONS_MAX = 1000


def _start(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:  # noqa: ARG001 (one size only)
    frame = frames.produce_frame(TOPIC, 0, frames.record_batch(1, 100), 1)
    with system.start(directory) as broker:
        ready = time.monotonic()
        create_topic(broker.address, TOPIC, 1, system.topic_settings(Flush.OS))
        with frames.connect(broker.address) as connection:
            frames.produce_once(connection, frame)
        acknowledged = time.monotonic()
        started = broker.started
        stopping = time.monotonic()
    yield Figure("ready", "ms", (ready - started) * 1000)
    yield Figure("first ack", "ms", (acknowledged - started) * 1000)
    yield Figure("clean stop", "ms", (time.monotonic() - stopping) * 1000)


def _start_partitions(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    frame = frames.produce_frame(f"{TOPIC}-0", 0, frames.record_batch(1, 100), 1)
    for partitions in scale.idle_partitions:
        name = f"{partitions:,} partition{'s' if partitions > 1 else ''}"
        where = directory / str(partitions)
        where.mkdir()
        with system.start(where) as broker:
            creating = time.monotonic()
            for first in range(0, partitions, TOPIC_PARTITIONS_MAX):
                count = min(TOPIC_PARTITIONS_MAX, partitions - first)
                create_topic(broker.address, f"{TOPIC}-{first}", count, system.topic_settings(Flush.OS))
            yield Figure(f"{name}: created", "ms", (time.monotonic() - creating) * 1000)
            yield Figure(f"{name}: memory, just created", "MB", resident_bytes(broker.processes) / 1e6)
        with system.start(where) as broker:
            with frames.connect(broker.address) as connection:
                frames.produce_once(connection, frame)
            acknowledged = time.monotonic()
            yield Figure(f"{name}: start to first ack", "ms", (acknowledged - broker.started) * 1000)
            yield Figure(f"{name}: memory", "MB", resident_bytes(broker.processes) / 1e6)


def _recovery(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    broker = system.start(directory)
    try:
        records = fill(system, broker, scale.recovered_bytes)
    finally:
        broker.kill()
    with system.start(directory) as recovered:
        check_record_count(recovered.address, TOPIC, 1, records)
        ready = time.monotonic()
        yield Figure("ready after kill -9", "ms", (ready - recovered.started) * 1000)
        yield Figure("memory after recovery", "MB", resident_bytes(recovered.processes) / 1e6)


START = Case("start", "from process start to the first acks=1 acknowledgement, topic creation included", _start)
START_PARTITIONS = Case(
    "start-partitions",
    "1 to 10,000 empty partitions (topics of 1,000 at most): creation, then a start with them there to the first ack",
    _start_partitions,
)
RECOVERY = Case(
    "recovery",
    "killed just after `recovered_bytes` (1 GiB quick, 10 GiB full) were produced, flush=os, then started again until "
    "the broker tells where the partition ends",
    _recovery,
)
