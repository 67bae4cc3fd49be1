"""Reports each disk operation of a broker, before, amid and after it. Only launchers of fault tests install this; the
product has no hook for it."""

from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Literal, NamedTuple

from headwater.protocol.batches.batch import Buffer
from headwater.storage.disk import Disk, File
from headwater.storage.flush.kernel_sync import KernelSync

# "mark" is the write of a transaction marker.
Operation = Literal["create", "write", "mark", "sync", "truncate", "rename", "remove"]
Moment = Literal["before", "amid", "after"]

_ATTRIBUTES_POSITION = 22
_IS_CONTROL = 0x20


class Passage(NamedTuple):
    operation: Operation
    moment: Moment
    # The new name of a renamed file.
    path: Path


Watch = Callable[[Passage], None]


def watch_disk(watch: Watch) -> None:
    """An OSError that is raised by `watch` is the disk's. Files keep their type, so that flushes still go to the kernel
    where it takes them."""
    _watch_writes(watch)
    _watch_syncs(watch)
    _watch_names(watch)


def _watch_writes(watch: Watch) -> None:
    write, truncate = File.pwritev, File.truncate

    def pwritev(self: File, buffers: Sequence[Buffer], position: int) -> None:
        operation: Operation = "mark" if _holds_marker(self.path, buffers) else "write"
        first, second = _halves(buffers)
        watch(Passage(operation, "before", self.path))
        write(self, first, position)
        watch(Passage(operation, "amid", self.path))
        write(self, second, position + sum(map(len, first)))
        watch(Passage(operation, "after", self.path))

    def cut(self: File, size: int) -> None:
        watch(Passage("truncate", "before", self.path))
        truncate(self, size)
        watch(Passage("truncate", "after", self.path))

    File.pwritev, File.truncate = pwritev, cut


def _watch_syncs(watch: Watch) -> None:
    sync_data, submit, collect = File.sync_data, KernelSync.submit, KernelSync.collect
    submitted: dict[int, Path] = {}

    def sync(self: File) -> None:
        watch(Passage("sync", "before", self.path))
        sync_data(self)
        watch(Passage("sync", "after", self.path))

    def begin(self: KernelSync, file: File, token: int) -> None:
        watch(Passage("sync", "before", file.path))
        submit(self, file, token)
        submitted[token] = file.path

    def end(self: KernelSync) -> list[tuple[int, OSError | None]]:
        return [(token, error or told(submitted.pop(token))) for token, error in collect(self)]

    def told(path: Path) -> OSError | None:
        # The kernel reports an asynchronous sync's failure only at its end, as a result.
        try:
            watch(Passage("sync", "after", path))
        except OSError as error:
            return error
        return None

    File.sync_data, KernelSync.submit, KernelSync.collect = sync, begin, end


def _watch_names(watch: Watch) -> None:
    open_file, rename_path, remove_path = Disk.open, Disk.rename, Disk.remove

    def open_or_create(self: Disk, path: Path, *, writable: bool = False, create: bool = False) -> File:
        if not create or self.exists(path):
            return open_file(self, path, writable=writable, create=create)
        watch(Passage("create", "before", path))
        file = open_file(self, path, writable=writable, create=create)
        watch(Passage("create", "after", path))
        return file

    def rename(self: Disk, source: Path, target: Path) -> None:
        watch(Passage("rename", "before", target))
        rename_path(self, source, target)
        watch(Passage("rename", "after", target))

    def remove(self: Disk, path: Path) -> None:
        watch(Passage("remove", "before", path))
        remove_path(self, path)
        watch(Passage("remove", "after", path))

    Disk.open, Disk.rename, Disk.remove = open_or_create, rename, remove


def _holds_marker(path: Path, buffers: Sequence[Buffer]) -> bool:
    return path.suffix == ".log" and any(batch[_ATTRIBUTES_POSITION] & _IS_CONTROL for batch in buffers)


def _halves(buffers: Sequence[Buffer]) -> tuple[list[Buffer], list[Buffer]]:
    """Split the buffers within one of them, so that the first half alone is a torn write."""
    ends = list(accumulate(map(len, buffers)))
    number = next((number for number, end in enumerate(ends) if end > ends[-1] // 2), 0)
    split = memoryview(buffers[number])
    middle = len(split) // 2
    return [*buffers[:number], split[:middle]], [split[middle:], *buffers[number + 1 :]]
