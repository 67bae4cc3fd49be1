"""Bulk produce and consume by the number of partitions."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.cases import bulk
from benchmarks.cases.bulk import Workload
from benchmarks.figures import Case, Figure
from benchmarks.scale import Scale
from benchmarks.systems import System


def _measure(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    with system.start(directory) as broker:
        bulk.prepare(system, broker, scale)
        for partitions in scale.partitions:
            name = f"{partitions:,} partition{'s' if partitions > 1 else ''}"
            yield from bulk.produce_and_consume(system, broker, Workload(name, partitions=partitions), scale)


PARTITIONS = Case("partitions", "librdkafka, 1 KiB records, 1 to 1,000 partitions, acks=all, flush=os", _measure)
