"""A disk that fails chosen operations and counts syncs."""

import errno
import os
import threading
from collections.abc import Sequence
from pathlib import Path

from headwater.protocol.batches.batch import Buffer
from headwater.storage.disk import Disk, File


class FaultyFile(File):
    __slots__ = ("disk",)
    disk: "FaultyDisk"

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        if self.disk.is_cursed(self.path) and self.disk.write_error is not None:
            # As on a real full disk, the bytes that fit are written before the error.
            whole = b"".join(bytes(buffer) for buffer in buffers)
            super().pwritev([whole[: len(whole) // 2]], position)
            raise self.disk.error(self.disk.write_error)
        super().pwritev(buffers, position)

    def sync_data(self) -> None:
        disk = self.disk
        if disk.is_cursed(self.path):
            disk.sync_started.set()
            assert disk.sync_allowed.wait(20)
            if disk.sync_error is not None:
                raise disk.error(disk.sync_error)
        disk.synced.append(self.path)


class FaultyDisk(Disk):
    """Injects faults into the `.log` files of partitions whose names start with `cursed`."""

    file_type = FaultyFile

    def __init__(self) -> None:
        self.cursed = "cursed"
        self.write_error: int | None = None
        self.sync_error: int | None = None
        self.create_error: int | None = None
        self.sync_started = threading.Event()
        self.sync_allowed = threading.Event()
        self.sync_allowed.set()
        self.synced: list[Path] = []

    def is_cursed(self, path: Path) -> bool:
        return path.suffix == ".log" and path.parent.name.startswith(self.cursed)

    def error(self, number: int) -> OSError:
        return OSError(number, os.strerror(number))

    def heal(self) -> None:
        self.write_error = self.sync_error = self.create_error = None

    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> File:
        if create and self.create_error is not None and self.is_cursed(path) and not self.exists(path):
            raise self.error(self.create_error)
        file = super().open(path, writable=writable, create=create)
        assert isinstance(file, FaultyFile)
        file.disk = self
        return file


FULL, BROKEN = errno.ENOSPC, errno.EIO
