"""Reads every file of a data directory and reports damaged files and the offsets concerned. Changes nothing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import HeadwaterError
from headwater.ids import TopicPartition
from headwater.storage import checkpoints, names
from headwater.storage.checkpoints import META_PROPERTIES, RECOVERY_POINTS, START_OFFSETS
from headwater.storage.disk import Disk
from headwater.storage.epochs import LeaderEpochs
from headwater.storage.inspection.segment_report import (
    BatchReport,
    inspect_aborted,
    inspect_indexes,
    inspect_lanes,
    inspect_segment,
)
from headwater.storage.producers import snapshot_format
from headwater.storage.recovery.scan import ends_early


@dataclass(frozen=True, slots=True)
class Damage:
    """What is wrong with a file. In a `.log` file, the batches from `first_offset` up to before `next_offset` are lost;
    `next_offset` is None where the end of the damage is unknown."""

    path: Path
    problem: str
    partition: TopicPartition | None = None
    position: int | None = None
    first_offset: int | None = None
    next_offset: int | None = None

    @property
    def is_of_records(self) -> bool:
        """Whether records are lost. All other files are rebuilt from records, or a broker can do without them."""
        return self.position is not None


def verify_directory(disk: Disk, root: Path) -> Iterator[Damage]:
    """Reports the damage of the files that all partitions share."""
    for name in (RECOVERY_POINTS, START_OFFSETS):
        try:
            checkpoints.read_offsets(disk, root / name)
        except HeadwaterError as error:
            yield Damage(root / name, str(error))
    try:
        properties = checkpoints.read_properties(disk, root / META_PROPERTIES)
    except HeadwaterError as error:
        yield Damage(root / META_PROPERTIES, str(error))
    else:
        if properties is not None and not properties.get("node.id", "").isdecimal():
            yield Damage(root / META_PROPERTIES, f"{META_PROPERTIES} names no broker (node.id)")


def verify_partition(disk: Disk, root: Path, partition: TopicPartition) -> Iterator[Damage]:
    directory = root / str(partition)
    segments = segment_files(disk, directory)
    for number, path in enumerate(segments):
        following = names.offset_of(segments[number + 1].name, names.LOG) if number + 1 < len(segments) else None
        is_whole = True
        # The active segment was never compacted.
        synced_offset = _synced_offset(disk, root, partition) if following is None else 0
        for damage in _verify_segment(disk, path, partition, following, synced_offset):
            is_whole = False
            yield damage
        if is_whole:
            yield from _verify_indexes(disk, path, partition, is_last=following is None)
    for path in _of_kind(disk, directory, names.SNAPSHOT):
        try:
            snapshot_format.decode(disk.read_file(path), path)
        except HeadwaterError as error:
            yield Damage(path, str(error), partition)
    epochs = directory / names.LEADER_EPOCHS
    try:
        LeaderEpochs.decode(disk.read_file(epochs), epochs)
    except FileNotFoundError:
        pass  # it is written with the first epoch
    except HeadwaterError as error:
        yield Damage(epochs, str(error), partition)


def segment_files(disk: Disk, directory: Path) -> Sequence[Path]:
    """The `.log` files in the order of their offsets."""
    return _of_kind(disk, directory, names.LOG)


def _of_kind(disk: Disk, directory: Path, suffix: str) -> Sequence[Path]:
    return [directory / name for name in sorted(disk.list(directory)) if names.offset_of(name, suffix) is not None]


def _synced_offset(disk: Disk, root: Path, partition: TopicPartition) -> int:
    """Everything before this offset was on disk, unless it was deleted; 0 if that is not known."""
    try:
        started, synced = (checkpoints.read_offsets(disk, root / name) for name in (START_OFFSETS, RECOVERY_POINTS))
    except HeadwaterError:
        return 0
    synced_offset = synced.get(partition, 0)
    return synced_offset if started.get(partition, 0) < synced_offset else 0


def _verify_segment(
    disk: Disk, path: Path, partition: TopicPartition, following_offset: int | None, synced_offset: int
) -> Iterator[Damage]:
    next_offset = names.offset_of(path.name, names.LOG) or 0
    damaged: BatchReport | None = None
    for report in inspect_segment(
        disk, path, with_records=True, limit_offset=following_offset, synced_offset=synced_offset
    ):
        if report.problems:
            # Several damaged batches in a row are reported as one: their boundaries are not known.
            damaged = damaged or report
        elif report.header is not None:
            if damaged is not None:
                yield _damage(path, partition, damaged, next_offset, report.header.base_offset)
                damaged = None
            next_offset = report.header.next_offset
    if damaged is not None:
        yield _damage(path, partition, damaged, next_offset, following_offset)
    elif next_offset < (end_offset := following_offset or synced_offset):
        yield Damage(path, ends_early(next_offset, end_offset), partition, disk.size(path), next_offset, end_offset)


def _damage(
    path: Path, partition: TopicPartition, report: BatchReport, first_offset: int, next_offset: int | None
) -> Damage:
    return Damage(path, "; ".join(report.problems), partition, report.position, first_offset, next_offset)


def _verify_indexes(disk: Disk, path: Path, partition: TopicPartition, *, is_last: bool) -> Iterator[Damage]:
    problems = [*inspect_aborted(disk, path)[1], *inspect_lanes(disk, path)]
    # The active segment gets its index files with the first flush.
    is_expected = not is_last or disk.exists(path.with_suffix(names.OFFSET_INDEX))
    if is_expected:
        problems += inspect_indexes(disk, path)
    for problem in problems:
        yield Damage(path, problem, partition)
