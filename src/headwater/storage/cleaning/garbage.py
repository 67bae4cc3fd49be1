"""Files that belong to no log any more. The loop has renamed them; any thread may remove them at any time."""

from collections.abc import Sequence
from pathlib import Path

from headwater.storage import names
from headwater.storage.disk import Disk


class Garbage:
    __slots__ = ("_checkpoint", "_disk", "_files", "_tree")

    def __init__(
        self,
        disk: Disk,
        files: Sequence[Path] = (),
        *,
        checkpoint: tuple[Path, bytes] | None = None,
        tree: Path | None = None,
    ) -> None:
        self._disk = disk
        self._files = files
        # A checkpoint to write once the directory, durably, no longer names the files.
        self._checkpoint = checkpoint
        self._tree = tree

    def __bool__(self) -> bool:
        return bool(self._files) or self._tree is not None

    def run(self) -> None:
        if self._files:
            try:
                # Write barrier: the renames of their successors must be on disk before these files are gone.
                self._disk.sync_directory(self._files[0].parent)
                if self._checkpoint is not None:
                    self._disk.replace_file(*self._checkpoint)
            except FileNotFoundError:
                return  # the whole log was deleted in the meantime
        for path in self._files:
            self._disk.remove(path)
        if self._tree is not None:
            self._disk.remove_tree(self._tree)


def discard(disk: Disk, paths: Sequence[Path]) -> Garbage:
    """Renames the files out of the log."""
    discarded: list[Path] = []
    for path in paths:
        # An index that no flush has written yet has no file.
        if disk.exists(path):
            discarded.append(path.with_name(path.name + names.DELETED))
            disk.rename(path, discarded[-1])
    return Garbage(disk, discarded)
