"""Bulk produce and consume by the size of a record."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.cases import bulk
from benchmarks.cases.bulk import PARTITIONS, Workload
from benchmarks.figures import Case, Figure
from benchmarks.scale import KIB, MIB, Scale
from benchmarks.systems import System


def size_name(size_bytes: int) -> str:
    for unit_bytes, unit in ((MIB, "MiB"), (KIB, "KiB")):
        if size_bytes >= unit_bytes:
            return f"{size_bytes // unit_bytes} {unit}"
    return f"{size_bytes} B"


def _measure(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    with system.start(directory) as broker:
        bulk.prepare(system, broker, scale)
        for size in scale.record_sizes:
            workload = Workload(size_name(size), record_bytes=size)
            yield from bulk.produce_and_consume(system, broker, workload, scale)


SIZES = Case("sizes", f"librdkafka, records of 10 B to 1 MiB, {PARTITIONS} partitions, acks=all, flush=os", _measure)
