"""Cuts a damaged log off where the damage begins, so that the part before it can be used again.

Nothing is destroyed: the part that is cut off is kept in a directory of its own, for a person to look at.
"""

from pathlib import Path
from typing import NamedTuple

from headwater.ids import TopicPartition
from headwater.storage import checkpoints, names
from headwater.storage.checkpoints import RECOVERY_POINTS, START_OFFSETS
from headwater.storage.disk import Disk
from headwater.storage.inspection.damage import Damage, segment_files

_COPY_BYTES = 4 << 20


class Repair(NamedTuple):
    partition: TopicPartition
    # Where the log ends now.
    end_offset: int
    # The directory of the part that was cut off.
    kept_in: Path


def cut_at(disk: Disk, root: Path, damage: Damage) -> Repair:
    """Cuts at `damage`, the first in its log. The next start verifies the log from its beginning, and rebuilds all its
    other files from the records."""
    assert damage.partition is not None, "damage of records is somewhere"
    assert damage.position is not None
    assert damage.first_offset is not None
    directory = root / str(damage.partition)
    kept_in = directory.with_name(names.directory_aside(directory.name, names.DIRECTORY_STRAY))
    disk.make_directory(kept_in)
    _copy(disk, damage.path, kept_in / damage.path.name)
    later = [path for path in segment_files(disk, directory) if path.name > damage.path.name]
    for path in later:
        _copy(disk, path, kept_in / path.name)
    disk.sync_directory(kept_in)
    disk.sync_directory(root)
    # From here on the next start has to verify everything.
    checkpoints.take_clean_mark(disk, root)
    for name in (RECOVERY_POINTS, START_OFFSETS):
        _forget(disk, root / name, damage.partition, keep_up_to=damage.first_offset)
    # Newest first: a crash in between leaves a log that ends earlier, not one with a gap.
    for path in reversed(later):
        _remove_segment(disk, path)
    file = disk.open(damage.path, writable=True)
    try:
        file.truncate(damage.position)
        file.sync_data()
    finally:
        file.close()
    for suffix in names.INDEXES:
        disk.remove(damage.path.with_suffix(suffix))
    for name in disk.list(directory):
        offset = names.offset_of(name, names.SNAPSHOT)
        if offset is not None and offset > damage.first_offset:
            disk.remove(directory / name)
    disk.sync_directory(directory)
    return Repair(damage.partition, damage.first_offset, kept_in)


def _copy(disk: Disk, source: Path, target: Path) -> None:
    read, written = disk.open(source), disk.open(target, create=True)
    try:
        position = 0
        while data := read.pread(_COPY_BYTES, position):
            written.pwritev([data], position)
            position += len(data)
        written.sync_data()
    finally:
        read.close()
        written.close()


def _forget(disk: Disk, path: Path, partition: TopicPartition, *, keep_up_to: int) -> None:
    """A checkpoint must not name an offset behind the new end of the log."""
    offsets = checkpoints.read_offsets(disk, path)
    if offsets.get(partition, 0) > keep_up_to:
        checkpoints.write_offsets(disk, path, {**offsets, partition: keep_up_to})


def _remove_segment(disk: Disk, path: Path) -> None:
    disk.remove(path)
    for suffix in names.INDEXES:
        disk.remove(path.with_suffix(suffix))
