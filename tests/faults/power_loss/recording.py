"""A disk that writes down, in order, everything that is done to a tree of files: names and contents apart.

It records by inode, as a file system does: a renamed or removed file may still be written.
"""

import shutil
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from headwater.protocol.batches.batch import Buffer
from headwater.storage.disk import Disk, File

ROOT = 0

Kind = Literal["link", "unlink", "rename", "sync directory", "write", "truncate", "sync"]
CHANGES_OF_NAMES = frozenset({"link", "unlink", "rename"})


@dataclass(frozen=True, slots=True)
class Step:
    kind: Kind
    # The inode of the directory whose entry changes, or of the file whose content does.
    inode: int
    name: str = ""
    # What the entry leads to ("link"), or the entry's new name ("rename").
    target: int = -1
    new_name: str = ""
    is_directory: bool = False
    position: int = 0
    data: bytes = b""


class RecordingFile(File):
    __slots__ = ("disk", "inode")
    disk: "RecordingDisk"
    inode: int

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        with self.disk.lock:
            super().pwritev(buffers, position)
            self.disk.steps.append(Step("write", self.inode, position=position, data=b"".join(buffers)))

    def truncate(self, size: int) -> None:
        with self.disk.lock:
            super().truncate(size)
            self.disk.steps.append(Step("truncate", self.inode, position=size))

    def sync_data(self) -> None:
        # Recording the sync is enough, as one instant: no real power is cut.
        with self.disk.lock:
            self.disk.steps.append(Step("sync", self.inode))


class RecordingDisk(Disk):
    file_type = RecordingFile

    def __init__(self, root: Path) -> None:
        self.root = root
        self.steps: list[Step] = []
        # Threads call too, for flushes and clean-ups.
        self.lock = threading.RLock()
        self._entries: dict[int, dict[str, int]] = {ROOT: {}}
        self._inode_count = 1

    def adopt(self) -> None:
        """Record the existing files as synced before the first step."""
        with self.lock:
            for path in sorted(self.root.rglob("*")):
                self._link(path, is_directory=path.is_dir())
                if path.is_file():
                    inode = self._find(path)
                    self.steps.append(Step("write", inode, data=path.read_bytes()))
                    self.steps.append(Step("sync", inode))
            self.steps += [Step("sync directory", inode) for inode in self._entries]

    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> File:
        with self.lock:
            is_new = create and not self.exists(path)
            file = super().open(path, writable=writable, create=create)
            assert isinstance(file, RecordingFile)
            if is_new:
                self._link(path, is_directory=False)
            file.disk, file.inode = self, self._find(path)
            return file

    def rename(self, source: Path, target: Path) -> None:
        assert source.parent == target.parent, "nothing is moved between directories"
        with self.lock:
            super().rename(source, target)
            directory = self._find(source.parent)
            entries = self._entries[directory]
            entries[target.name] = entries.pop(source.name)
            self.steps.append(Step("rename", directory, source.name, new_name=target.name))

    def remove(self, path: Path) -> None:
        with self.lock:
            if self.exists(path):
                super().remove(path)
                self._unlink(path)

    def make_directory(self, path: Path) -> None:
        with self.lock:
            missing = [each for each in (path, *path.parents) if self.root in each.parents and not each.exists()]
            super().make_directory(path)
            for each in reversed(missing):
                self._link(each, is_directory=True)

    def remove_tree(self, path: Path) -> None:
        with self.lock:
            for each in sorted(path.rglob("*"), reverse=True):
                self._unlink(each)
            self._unlink(path)
            shutil.rmtree(path)

    def sync_directory(self, path: Path) -> None:
        with self.lock:
            self.steps.append(Step("sync directory", self._find(path)))

    def _find(self, path: Path) -> int:
        inode = ROOT
        for part in path.relative_to(self.root).parts:
            inode = self._entries[inode][part]
        return inode

    def _link(self, path: Path, *, is_directory: bool) -> None:
        inode, self._inode_count = self._inode_count, self._inode_count + 1
        directory = self._find(path.parent)
        self._entries[directory][path.name] = inode
        if is_directory:
            self._entries[inode] = {}
        self.steps.append(Step("link", directory, path.name, inode, is_directory=is_directory))

    def _unlink(self, path: Path) -> None:
        directory = self._find(path.parent)
        del self._entries[directory][path.name]
        self.steps.append(Step("unlink", directory, path.name))
