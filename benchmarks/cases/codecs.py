"""Bulk produce and consume by the codec that the client compresses with; bytes are those before compression."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.cases import bulk
from benchmarks.cases.bulk import PARTITIONS, Workload
from benchmarks.figures import Case, Figure
from benchmarks.scale import Scale
from benchmarks.systems import System


def _measure(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    with system.start(directory) as broker:
        bulk.prepare(system, broker, scale)
        for codec in scale.codecs:
            workload = Workload(codec, producer={"compression.type": codec})
            yield from bulk.produce_and_consume(system, broker, workload, scale)


CODECS = Case(
    "codecs", f"librdkafka, 1 KiB records of JSON text, {PARTITIONS} partitions, none, lz4, zstd, flush=os", _measure
)
