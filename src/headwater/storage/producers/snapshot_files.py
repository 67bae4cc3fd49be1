"""The producer snapshots of a log: one at the base of each segment, and the newest one at any offset."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from headwater.storage import names
from headwater.storage.disk import Disk
from headwater.storage.producers import snapshot_format
from headwater.storage.producers.snapshot_format import DamagedSnapshot
from headwater.storage.producers.states import ProducerState


class SnapshotFiles:
    __slots__ = ("_disk", "_offsets", "_stale", "_unsynced", "directory")

    def __init__(self, disk: Disk, directory: Path, offsets: Sequence[int] = ()) -> None:
        self._disk = disk
        self.directory = directory
        self._offsets = list(offsets)
        self._unsynced: list[Path] = []
        self._stale: list[Path] = []

    @property
    def newest(self) -> int | None:
        return self._offsets[-1] if self._offsets else None

    @property
    def has_unsynced(self) -> bool:
        return bool(self._unsynced or self._stale)

    def path(self, offset: int) -> Path:
        return self.directory / names.file_name(offset, names.SNAPSHOT)

    def write(self, offset: int, states: Iterable[ProducerState], segment_base: int) -> None:
        """Writes the states at `offset`; the next flush syncs the file. An older snapshot inside the same segment,
        whose first offset is `segment_base`, is no longer needed."""
        newest = self.newest
        if newest == offset:
            return
        path = self.path(offset)
        self._disk.write_file(path, snapshot_format.encode(states))
        if newest is not None and newest > segment_base:
            self._stale.append(self.path(self._offsets.pop()))
        self._offsets.append(offset)
        self._unsynced.append(path)

    def read_newest(self) -> list[ProducerState]:
        """Raises DamagedSnapshot or FileNotFoundError; the caller may then `forget_newest` and read the next older."""
        path = self.path(self._offsets[-1])
        return snapshot_format.decode(self._disk.read_file(path), path)

    def read_before(self, offset: int) -> tuple[Sequence[ProducerState], int] | None:
        """The states of the newest whole snapshot at `offset` or before it, and its offset."""
        for found in reversed(self._offsets):
            if found <= offset:
                path = self.path(found)
                with suppress(DamagedSnapshot, FileNotFoundError):
                    return snapshot_format.decode(self._disk.read_file(path), path), found
        return None

    def forget_newest(self) -> None:
        self._disk.remove(self.path(self._offsets.pop()))

    def take_unsynced(self) -> tuple[list[Path], list[Path]]:
        """The files that the next flush syncs, and those that it then removes."""
        unsynced, self._unsynced = self._unsynced, []
        stale, self._stale = self._stale, []
        return [path for path in unsynced if path not in stale and self._disk.exists(path)], stale

    def cut_before(self, offset: int) -> list[Path]:
        """Removes the snapshots before `offset` from the log. Returns their files."""
        gone = [found for found in self._offsets if found < offset]
        self._offsets = self._offsets[len(gone) :]
        return [self.path(found) for found in gone]

    def cut_after(self, offset: int) -> list[Path]:
        """Removes the snapshots after `offset` from the log. Returns their files."""
        gone = [found for found in self._offsets if found > offset]
        self._offsets = self._offsets[: len(self._offsets) - len(gone)]
        return [self.path(found) for found in gone]
