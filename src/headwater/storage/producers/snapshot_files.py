"""Which producer snapshots a log has: one at the base of each segment, and the newest, wherever that is."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from headwater.storage import names
from headwater.storage.disk import Disk
from headwater.storage.producers import snapshot_format
from headwater.storage.producers.snapshot_format import DamagedSnapshot
from headwater.storage.producers.state import ProducerState


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
        """The states at `offset`, for a flush to sync. One in the middle of the same segment is of no use any more."""
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
        """DamagedSnapshot or FileNotFoundError: the caller decides whether to `forget_newest` it and look further."""
        path = self.path(self._offsets[-1])
        return snapshot_format.decode(self._disk.read_file(path), path)

    def read_before(self, offset: int) -> tuple[Sequence[ProducerState], int] | None:
        """The newest whole one at `offset` or before it, and where it was taken."""
        for found in reversed(self._offsets):
            if found <= offset:
                path = self.path(found)
                with suppress(DamagedSnapshot, FileNotFoundError):
                    return snapshot_format.decode(self._disk.read_file(path), path), found
        return None

    def forget_newest(self) -> None:
        self._disk.remove(self.path(self._offsets.pop()))

    def take_unsynced(self) -> list[Path]:
        unsynced, self._unsynced = self._unsynced, []
        return [path for path in unsynced if path not in self._stale and self._disk.exists(path)]

    def take_stale(self) -> list[Path]:
        stale, self._stale = self._stale, []
        return stale

    def cut_before(self, offset: int) -> list[Path]:
        """Gives the files of those before `offset`, which no longer belong to the log."""
        gone = [found for found in self._offsets if found < offset]
        self._offsets = self._offsets[len(gone) :]
        return [self.path(found) for found in gone]

    def cut_after(self, offset: int) -> list[Path]:
        gone = [found for found in self._offsets if found > offset]
        self._offsets = self._offsets[: len(self._offsets) - len(gone)]
        return [self.path(found) for found in gone]
