"""Catch-up: a consumer reads a topic from its start while a producer goes on writing to it."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.cases import bulk
from benchmarks.cases.bulk import PARTITIONS, Workload
from benchmarks.clients import Outcome, Run, explained, run
from benchmarks.figures import Case, Figure
from benchmarks.loads import librdkafka
from benchmarks.scale import Scale
from benchmarks.systems import System


def _measure(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    workload = Workload("catch-up")
    records = workload.records(scale)
    with system.start(directory) as broker:
        bulk.prepare(system, broker, scale)
        bulk.produce(system, broker, workload, scale)
        to = {"address": broker.address, "topic": workload.topic, "record_bytes": workload.record_bytes}
        consume = partial(librdkafka.consume, **to, partitions=workload.partitions, records=2 * records)
        produce = partial(librdkafka.produce, **to, records=records)
        measured: Run[Outcome] = run(broker, consume, produce)
    consumed, produced = measured.outcomes
    yield explained(measured, "consume", "MB/s", consumed.megabytes_per_second)
    yield explained(measured, "produce meanwhile", "MB/s", produced.megabytes_per_second)
    gigabytes = (consumed.bytes + produced.bytes) / 1e9
    yield Figure("broker CPU", "s/GB", measured.broker.total_s / gigabytes)


CATCH_UP = Case(
    "catch-up",
    f"librdkafka, 1 KiB records, {PARTITIONS} partitions: as much again is written while all is read from the start",
    _measure,
)
