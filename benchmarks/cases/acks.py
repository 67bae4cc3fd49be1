"""Bulk produce by the acknowledgement that the producer waits for."""

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
        for acks in scale.acks:
            workload = Workload(f"acks={acks}", producer={"acks": acks})
            yield from bulk.figures(bulk.produce(system, broker, workload, scale), f"{workload.name}: produce")


ACKS = Case("acks", f"librdkafka, 1 KiB records, {PARTITIONS} partitions, acks 0, 1 and all, flush=os", _measure)
