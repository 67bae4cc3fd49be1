"""Disk use of records and of empty partitions, including the files of a clean shutdown."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.cases import bulk
from benchmarks.cases.bulk import Workload
from benchmarks.figures import Case, Figure
from benchmarks.scale import Scale
from benchmarks.systems import Flush, System
from benchmarks.topics import create_topic

BLOCK_BYTES = 512  # the unit of st_blocks, whatever the file system's own is
KINDS = {
    "1 KiB records": Workload("plain"),
    "1 KiB records, zstd": Workload("zstd", producer={"compression.type": "zstd"}),
}


def used_bytes(directory: Path) -> int:
    """Allocated bytes: holes in a file do not count."""
    return sum(path.lstat().st_blocks for path in directory.rglob("*")) * BLOCK_BYTES


def _measure(system: System, directory: Path, scale: Scale) -> Iterator[Figure]:
    for name, workload in KINDS.items():
        where = directory / workload.name
        where.mkdir()
        with system.start(where) as broker:
            bulk.produce(system, broker, workload, scale)
            yield Figure(f"{name}: while running", "B/record", used_bytes(where / "data") / workload.records(scale))
        yield Figure(f"{name}: after a clean stop", "B/record", used_bytes(where / "data") / workload.records(scale))
    partitions = max(scale.partitions)
    where = directory / "empty"
    where.mkdir()
    with system.start(where) as broker:
        before = used_bytes(where / "data")
        yield Figure("nothing yet", "KB", before / 1e3)
        create_topic(broker.address, "empty", partitions, system.topic_settings(Flush.OS))
        added = used_bytes(where / "data") - before
        yield Figure("an empty partition", "KB", added / partitions / 1e3)


DISK = Case(
    "disk",
    "what the data directory takes: 1 KiB records of JSON text, 6 partitions; an empty partition of many",
    _measure,
)
