"""Cold read: the same records from the page cache, and from the disk after the cache has let go of them."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks import page_cache
from benchmarks.cases import bulk
from benchmarks.cases.bulk import PARTITIONS, Workload
from benchmarks.figures import Case, Figure
from benchmarks.scale import Scale
from benchmarks.systems import System


def _measure(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    workload = Workload("cold-read")
    with system.start(directory) as broker:
        bulk.prepare(system, broker, scale)
        bulk.produce(system, broker, workload, scale)
        yield from bulk.figures(bulk.consume(broker, workload, scale), "from the page cache")
        page_cache.drop(directory)
        yield from bulk.figures(bulk.consume(broker, workload, scale), "from the disk")


COLD_READ = Case(
    "cold-read",
    f"librdkafka, 1 KiB records, {PARTITIONS} partitions; before the second read all files are synced and dropped from "
    "the page cache (a disk of a virtual machine may have a cache of its own)",
    _measure,
)
