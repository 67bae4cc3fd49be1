"""The states in which a power failure may leave a tree of files, given what was done to it and what was synced.

Of names, what was done to a directory since it was last synced may be undone from the end; of contents, what was
written since the last sync may be there, be missing, be torn page by page, or read as zeros. That is what POSIX leaves
open, and more than most file systems do.
"""

import random
import shutil
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from tests.faults.power_loss.recording import CHANGES_OF_NAMES, ROOT, Step

PAGE_BYTES = (64, 512, 4096)  # The smallest size tears small batches, too.
KEPT_SHARE = 0.7

Names = Literal["all", "synced", "journalled", "any"]
Contents = Literal["all", "synced", "torn", "pages", "zeros", "any"]


@dataclass(frozen=True)
class Loss:
    """One of the possible states: a kind for names, one for contents, and a seed for the choices within them."""

    names: Names
    contents: Contents
    seed: int = 0

    @property
    def is_power_loss(self) -> bool:
        """False for a killed process, which loses nothing that it handed to the kernel."""
        return (self.names, self.contents) != ("all", "all")


KILLED = Loss("all", "all")
LOSSES: Sequence[tuple[Names, Contents]] = (
    ("all", "all"),
    ("all", "synced"),
    ("synced", "synced"),
    ("all", "torn"),
    ("all", "pages"),
    ("all", "zeros"),
    ("journalled", "any"),
    ("any", "any"),
    ("any", "pages"),
)


@dataclass
class _Content:
    synced: bytes = b""
    unsynced: list[Step] = field(default_factory=list)


class Tree:
    """The state after a crash: files by path, and directories, which may be empty."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.directories: list[str] = []

    def materialize(self, root: Path) -> None:
        """Make `root` hold exactly this tree."""
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        for directory in self.directories:
            (root / directory).mkdir()
        for path, data in self.files.items():
            (root / path).write_bytes(data)


def after_crash(steps: Sequence[Step], loss: Loss) -> Tree:
    """The tree after a crash behind the last of `steps`."""
    chance = random.Random(loss.seed)
    contents = _contents(steps)
    entries, is_directory = _entries(steps, loss.names, chance)
    last_write = next((step for step in reversed(steps) if step.kind == "write"), None)
    tree = Tree()

    def walk(inode: int, path: str) -> None:
        for name, child in entries.get(inode, {}).items():
            where = f"{path}/{name}" if path else name
            if child in is_directory:
                tree.directories.append(where)
                walk(child, where)
            else:
                content = contents.get(child, _Content())
                tree.files[where] = _applied(content.synced, _kept(content, loss.contents, last_write, chance))

    walk(ROOT, "")
    return tree


def _contents(steps: Sequence[Step]) -> Mapping[int, _Content]:
    found: dict[int, _Content] = defaultdict(_Content)
    for step in steps:
        if step.kind in {"write", "truncate"}:
            found[step.inode].unsynced.append(step)
        elif step.kind == "sync":
            content = found[step.inode]
            content.synced, content.unsynced = _applied(content.synced, content.unsynced), []
    return found


def _applied(data: bytes, steps: Sequence[Step]) -> bytes:
    if not steps:
        return data
    content = bytearray(data)
    for step in steps:
        content.extend(bytes(max(step.position - len(content), 0)))
        if step.kind == "truncate":
            del content[step.position :]
        else:
            content[step.position : step.position + len(step.data)] = step.data
    return bytes(content)


def _entries(
    steps: Sequence[Step], names: Names, chance: random.Random
) -> tuple[Mapping[int, Mapping[str, int]], set[int]]:
    """The directory entries after the crash, and the inodes that are directories."""
    changes: dict[int, list[int]] = defaultdict(list)
    synced_at: dict[int, int] = defaultdict(int)
    for index, step in enumerate(steps):
        if step.kind in CHANGES_OF_NAMES:
            changes[step.inode].append(index)
        elif step.kind == "sync directory":
            synced_at[step.inode] = index
    until = _until(changes, synced_at, len(steps), names, chance)
    entries: dict[int, dict[str, int]] = defaultdict(dict)
    is_directory: set[int] = set()
    for directory, indexes in changes.items():
        limit = until(directory)
        for index in indexes:
            if index >= limit:
                break
            step = steps[index]
            if step.kind == "link":
                entries[directory][step.name] = step.target
                if step.is_directory:
                    is_directory.add(step.target)
            elif step.kind == "unlink":
                del entries[directory][step.name]
            else:
                entries[directory][step.new_name] = entries[directory].pop(step.name)
    return entries, is_directory


def _until(
    changes: Mapping[int, Sequence[int]],
    synced_at: Mapping[int, int],
    end: int,
    names: Names,
    chance: random.Random,
) -> Callable[[int], int]:
    """By directory: the step up to which its changes survive."""
    if names == "all":
        return lambda _directory: end
    if names == "synced":
        return lambda directory: synced_at[directory]
    if names == "journalled":
        # One journal for all directories: a sync also persists all earlier changes of other directories.
        cut = chance.randint(max(synced_at.values(), default=0), end)
        return lambda _directory: cut

    def some(directory: int) -> int:
        indexes = changes[directory]
        first_unsynced = bisect_left(indexes, synced_at[directory])
        kept = chance.randint(first_unsynced, len(indexes))
        return end if kept == len(indexes) else indexes[kept]

    return some


def _kept(content: _Content, contents: Contents, last: Step | None, chance: random.Random) -> Sequence[Step]:
    unsynced = content.unsynced
    if not unsynced or contents == "all":
        return unsynced
    if contents == "any":
        contents = chance.choice(("all", "synced", "torn", "pages", "zeros"))
        return _kept(content, contents, unsynced[-1], chance)
    if contents == "synced":
        return ()
    if contents == "torn":
        return [_half(step) if step is last else step for step in unsynced]
    if contents == "zeros":
        return [_zeroed(step, len(content.synced)) for step in unsynced]
    page_bytes = chance.choice(PAGE_BYTES)
    return [page for step in unsynced for page in _pages(step, page_bytes) if chance.random() < KEPT_SHARE]


def _half(step: Step) -> Step:
    return step if step.kind == "truncate" else replace(step, data=step.data[: len(step.data) // 2])


def _zeroed(step: Step, synced_bytes: int) -> Step:
    """The file's new length survives but its data reads as zeros, because the blocks were never allocated."""
    if step.kind == "truncate":
        return step
    kept = max(synced_bytes - step.position, 0)
    return replace(step, data=step.data[:kept] + bytes(max(len(step.data) - kept, 0)))


def _pages(step: Step, page_bytes: int) -> Sequence[Step]:
    if step.kind == "truncate":
        return [step]
    starts = range(0, len(step.data), page_bytes)
    return [replace(step, position=step.position + at, data=step.data[at : at + page_bytes]) for at in starts]
