"""Time from the start of the process until it is of use: the first time, and after it was killed with much data."""

import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.cases.fetch import fill
from benchmarks.cases.produce import TOPIC
from benchmarks.figures import Case, Figure
from benchmarks.loads import frames
from benchmarks.processes import resident_bytes
from benchmarks.scale import Scale
from benchmarks.systems import Flush, System
from benchmarks.topics import check_record_count, create_topic


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


def _recovery(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    broker = system.start(directory)
    try:
        records = fill(system, broker, scale.retained_bytes)
    finally:
        broker.kill()
    with system.start(directory) as recovered:
        ready = time.monotonic()
        check_record_count(recovered.address, TOPIC, 1, records)
        yield Figure("ready after kill -9", "ms", (ready - recovered.started) * 1000)
        yield Figure("memory after recovery", "MB", resident_bytes(recovered.processes) / 1e6)


START = Case("start", "from process start to the first acks=1 acknowledgement, topic creation included", _start)
RECOVERY = Case("recovery", "killed just after 1 GiB was produced, flush=os, then started again", _recovery)
