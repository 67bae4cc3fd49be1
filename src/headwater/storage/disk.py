"""The only module that touches the file system, so that a test can record every write and inject every fault.

A write is whole or raises OSError. A file is durable after a `sync_` of it and of the directory that names it.
"""

import errno
import fcntl
import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from headwater.protocol.batches.batch import Buffer
from headwater.storage.names import TEMPORARY

_VECTOR_MAX: Final = os.sysconf("SC_IOV_MAX")
_WARMED_BYTES: Final = 1 << 20


class File:
    """An open file. It closes with its last reference, so that deleting a segment never breaks a reader of it."""

    __slots__ = ("__weakref__", "_descriptor", "_second_descriptor", "path")

    # The system call itself. Tests replace it: a disk that fills up writes less than it was given.
    _write_vector = staticmethod(os.pwritev)

    def __init__(self, path: Path, flags: int) -> None:
        self._descriptor = self._second_descriptor = -1
        self.path = path
        self._descriptor = os.open(path, flags | os.O_CLOEXEC, 0o644)

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """For callers that cannot wait until the last reference is gone. Reading after it is an error."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
        self.close_second_opening()

    def fileno(self) -> int:
        return self._descriptor

    def second_opening(self) -> int:
        """A descriptor with an open file description of its own: Linux reports a writeback error once to each."""
        if self._second_descriptor < 0:
            # Not by its path, which may have changed since.
            self._second_descriptor = os.open(f"/proc/self/fd/{self._descriptor}", os.O_RDONLY | os.O_CLOEXEC)
        return self._second_descriptor

    def close_second_opening(self) -> None:
        descriptor, self._second_descriptor = self._second_descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def pread(self, length: int, position: int) -> bytes:
        """Up to `length` bytes: fewer only at the end of the file."""
        data = os.pread(self._descriptor, length, position)
        while len(data) < length:
            more = os.pread(self._descriptor, length - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def pread_into(self, buffer: memoryview, position: int) -> int:
        """How many bytes were read: fewer than the buffer takes only at the end of the file."""
        filled = 0
        while filled < len(buffer):
            count = os.preadv(self._descriptor, [buffer[filled:]], position + filled)
            if count == 0:
                break
            filled += count
        return filled

    def pread_resident(self, length: int, position: int) -> bytes | None:
        """The bytes if all of them are in the page cache; None if they would have to be read from the disk."""
        try:
            return self._pread_now(length, position)
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                return None
            # The file system cannot tell (tmpfs, overlays). Reading these few bytes is quicker than asking a thread.
            data = self.pread(length, position)
            return data if len(data) == length else None

    def is_resident(self, position: int, length: int) -> bool:
        """Whether the range is most likely in the page cache: its first and its last byte are."""
        try:
            ends = self._pread_now(1, position), self._pread_now(1, position + length - 1)
        except OSError:
            # Not in the page cache, or a file system that cannot tell.
            return False
        return None not in ends

    def _pread_now(self, length: int, position: int) -> bytes | None:
        data = bytearray(length)
        count = os.preadv(self._descriptor, [data], position, os.RWF_NOWAIT)
        return bytes(data) if count == length else None

    def warm(self, position: int, length: int) -> None:
        """Reads the range into the page cache. Blocks for as long as the disk takes."""
        for start in range(position, position + length, _WARMED_BYTES):
            os.pread(self._descriptor, min(_WARMED_BYTES, position + length - start), start)

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        """One gathered write. Continues after short writes until all is written or a call raises."""
        length = sum(map(len, buffers))
        if len(buffers) <= _VECTOR_MAX:
            written = self._write_vector(self._descriptor, buffers, position)
            if written == length:
                return
        else:
            written = 0
        while written < length:
            written += self._write_vector(self._descriptor, _remainder(buffers, written), position + written)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def sync_data(self) -> None:
        os.fdatasync(self._descriptor)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def map(self) -> mmap.mmap | bytes:
        """The whole file, read-only. For files that no longer change."""
        size = self.size()
        return mmap.mmap(self._descriptor, size, access=mmap.ACCESS_READ) if size else b""


class Disk:
    file_type: type[File] = File

    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> File:
        flags = os.O_RDWR if writable or create else os.O_RDONLY
        return self.file_type(path, flags | os.O_CREAT if create else flags)

    def list(self, directory: Path) -> list[str]:
        return os.listdir(directory)

    def exists(self, path: Path) -> bool:
        return os.path.exists(path)

    def is_directory(self, path: Path) -> bool:
        """True for a directory itself, not for a link to one."""
        return os.path.isdir(path) and not os.path.islink(path)

    def size(self, path: Path) -> int:
        return os.stat(path).st_size

    def read_file(self, path: Path) -> bytes:
        file = self.open(path)
        try:
            return file.pread(file.size(), 0)
        finally:
            file.close()

    def write_file(self, path: Path, data: bytes) -> None:
        """Not durable before `sync_file` and `sync_directory`: a crash may leave a part of it."""
        file = self.open(path, create=True)
        try:
            file.truncate(0)
            file.pwritev([data], 0)
        finally:
            file.close()

    def replace_file(self, path: Path, data: bytes) -> None:
        """Durable and atomic: a crash leaves the whole old file or the whole new one."""
        temporary = path.with_name(path.name + TEMPORARY)
        file = self.open(temporary, create=True)
        try:
            file.truncate(0)
            file.pwritev([data], 0)
            file.sync_data()
        finally:
            file.close()
        self.rename(temporary, path)
        self.sync_directory(path.parent)

    def rename(self, source: Path, target: Path) -> None:
        os.rename(source, target)

    def remove(self, path: Path) -> None:
        """Ignores a missing file: a removal often repeats one that a crash cut short."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            return

    def make_directory(self, path: Path) -> None:
        os.makedirs(path, exist_ok=True)

    def remove_tree(self, path: Path) -> None:
        # Imported here because only a deletion needs it, and start-up time counts.
        import shutil  # noqa: PLC0415

        shutil.rmtree(path)

    def volume_bytes(self, path: Path) -> tuple[int, int]:
        """The size of the file system that holds `path`, and how many bytes can still be written to it."""
        volume = os.statvfs(path)
        return volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize

    def sync_file(self, path: Path) -> None:
        file = self.open(path)
        try:
            file.sync_data()
        finally:
            file.close()

    def sync_directory(self, path: Path) -> None:
        file = File(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(file.fileno())
        finally:
            file.close()

    def lock_directory(self, path: Path) -> File:
        """The lock is held for as long as the file is referenced. BlockingIOError: another process holds it."""
        file = self.open(path / ".lock", create=True)
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise
        return file


def _remainder(buffers: Sequence[Buffer], written: int) -> list[Buffer]:
    """The next vector to write, after the first `written` bytes of all buffers."""
    vector: list[Buffer] = []
    for buffer in buffers:
        if written >= len(buffer):
            written -= len(buffer)
        else:
            vector.append(memoryview(buffer)[written:])
            written = 0
            if len(vector) == _VECTOR_MAX:
                break
    return vector
