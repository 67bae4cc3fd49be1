"""A disk that records its operations, and the states in which a crash may leave it.

Metadata (names) is journalled: a crash keeps a prefix of it. Data that was not synced may be there, be missing, or be
torn, page by page. Both are the promises of the file systems that we run on, and no more than that.
"""

import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from headwater.protocol.batches.batch import Buffer
from headwater.storage.disk import Disk, File

PAGE_BYTES = 64  # small, so that even small batches can be torn
Mode = Literal["killed", "torn", "unsynced", "reordered", "nothing unsynced"]
MODES: Sequence[Mode] = ("killed", "torn", "unsynced", "reordered", "nothing unsynced")


@dataclass(frozen=True)
class Step:
    kind: Literal["create", "write", "truncate", "sync", "rename", "remove", "sync directory"]
    path: str
    position: int = 0
    data: bytes = b""
    target: str = ""


class RecordingFile(File):
    __slots__ = ("disk", "name")
    disk: "RecordingDisk"
    name: str

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        super().pwritev(buffers, position)
        self.disk.steps.append(Step("write", self.name, position, b"".join(buffers)))

    def truncate(self, size: int) -> None:
        super().truncate(size)
        self.disk.steps.append(Step("truncate", self.name, size))

    def sync_data(self) -> None:
        # Recording the sync is enough: no test cuts the power.
        self.disk.steps.append(Step("sync", self.name))


class RecordingDisk(Disk):
    """Records writes by inode, as a file system does: a renamed or removed file may still be written."""

    file_type = RecordingFile

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._inodes: dict[str, str] = {}

    def adopt(self, directory: Path) -> dict[str, bytes]:
        """Records the files that exist before the first step."""
        found = {path.name: path.read_bytes() for path in directory.iterdir()}
        self._inodes = {name: name for name in found}
        return found

    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> File:
        is_new = create and not self.exists(path)
        file = super().open(path, writable=writable, create=create)
        assert isinstance(file, RecordingFile)
        if is_new:
            self._inodes[path.name] = f"{path.name}#{len(self.steps)}"
            self.steps.append(Step("create", path.name, target=self._inodes[path.name]))
        file.disk, file.name = self, self._inodes[path.name]
        return file

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        self._inodes[target.name] = self._inodes.pop(source.name)
        self.steps.append(Step("rename", source.name, target=target.name))

    def remove(self, path: Path) -> None:
        if self.exists(path):
            super().remove(path)
            del self._inodes[path.name]
            self.steps.append(Step("remove", path.name))

    def sync_directory(self, path: Path) -> None:
        self.steps.append(Step("sync directory", path.name))


@dataclass
class _Inode:
    synced: bytes = b""
    unsynced: list[Step] = field(default_factory=list)

    def content(self, kept: Sequence[Step]) -> bytes:
        data = bytearray(self.synced)
        for step in kept:
            if step.kind == "truncate":
                del data[step.position :]
                data.extend(bytes(step.position - len(data)))
            else:
                data.extend(bytes(max(step.position - len(data), 0)))
                data[step.position : step.position + len(step.data)] = step.data
        return bytes(data)


def crash(steps: Sequence[Step], mode: Mode, seed: int = 0, before: dict[str, bytes] | None = None) -> dict[str, bytes]:
    """The files after a crash that follows the last of `steps`."""
    inodes = {name: _Inode(data) for name, data in (before or {}).items()}
    names = {name: name for name in inodes}
    durable_names = dict(names)
    for step in steps:
        if step.kind == "create":
            names[step.path] = step.target
            inodes[step.target] = _Inode()
        elif step.kind in {"write", "truncate"}:
            inodes[step.path].unsynced.append(step)
        elif step.kind == "sync":
            inode = inodes[step.path]
            inode.synced, inode.unsynced = inode.content(inode.unsynced), []
        elif step.kind == "rename":
            names[step.target] = names.pop(step.path)
        elif step.kind == "remove":
            del names[step.path]
        else:
            durable_names = dict(names)
    chosen = durable_names if mode == "nothing unsynced" else names
    chance = random.Random(seed)
    last = next((step for step in reversed(steps) if step.kind == "write"), None)
    return {name: inodes[inode].content(_kept(inodes[inode], mode, last, chance)) for name, inode in chosen.items()}


def _kept(inode: _Inode, mode: Mode, last: Step | None, chance: random.Random) -> list[Step]:
    if mode in {"unsynced", "nothing unsynced"}:
        return []
    if mode == "killed":
        return inode.unsynced
    if mode == "torn":
        return [step if step is not last else _half(step) for step in inode.unsynced]
    return [
        Step("write", step.path, step.position + start, step.data[start : start + PAGE_BYTES])
        for step in inode.unsynced
        for start in range(0, len(step.data), PAGE_BYTES)
        if chance.random() < 0.7
    ]


def _half(step: Step) -> Step:
    return Step("write", step.path, step.position, step.data[: len(step.data) // 2])


def materialize(files: dict[str, bytes], directory: Path) -> None:
    """Replaces the contents of `directory` with the files that survived."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for name, data in files.items():
        (directory / name).write_bytes(data)
