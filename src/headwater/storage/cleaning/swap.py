"""Puts cleaned segments in the place of those they were made from, all of a round at once. After a crash the swap is
completed or undone.

`.cleaned` files are whole and do not belong to the log. They are renamed to `.swap`, the first segment's `.log` last:
this is the commit, and from then on the swap files are the log. Indexes are renamed before their `.log`, in and out, so
that indexes beside an old `.log` are old, and indexes without one are new.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from headwater.storage import names
from headwater.storage.disk import Disk
from headwater.storage.recovery import scan
from headwater.storage.segment import Segment

_INDEXES_FIRST: Final = tuple(reversed(names.SEGMENT_FILES))


class CleanedSegment(NamedTuple):
    base_offset: int
    size: int
    next_offset: int
    has_aborted: bool


class Replacement(NamedTuple):
    """Neighbouring segments, and the cleaned ones for their place: whole on disk, each begins where the last ended."""

    replaced: Sequence[Segment]
    cleaned: Sequence[CleanedSegment]

    @property
    def files(self) -> list[Path]:
        """The names that the cleaned segments have before they are installed."""
        directory = self.replaced[0].directory
        return [
            directory / names.file_name(one.base_offset, suffix + names.CLEANED)
            for one in self.cleaned
            for suffix in names.SEGMENT_FILES
        ]


def install(segments: Sequence[Segment], replacement: Replacement) -> tuple[list[Segment], list[Path]]:
    """The segments of a log, with the cleaned ones in their place, and files that can be removed."""
    installed, (replaced, cleaned) = list(segments), replacement
    head, start = replaced[0], installed.index(replaced[0])
    place = slice(start, start + len(replaced))
    assert installed[place] == list(replaced), "only the head of a log is ever removed"
    discarded = _swap(head.disk, head.directory, [one.base_offset for one in cleaned], replaced)
    installed[place] = [head.successor(*one) for one in cleaned]
    return installed, discarded


def _swap(disk: Disk, directory: Path, cleaned: Sequence[int], replaced: Sequence[Segment]) -> list[Path]:
    """Returns the files of the segments that were replaced, renamed to be removed."""
    for base_offset in reversed(cleaned):
        _rename_all(disk, directory, base_offset, names.CLEANED, names.SWAP)
    discarded: list[Path] = []
    for segment in replaced:
        for suffix in _INDEXES_FIRST:
            path = segment.path(suffix)
            if disk.exists(path):
                discarded.append(path.with_name(path.name + names.DELETED))
                disk.rename(path, discarded[-1])
    for base_offset in reversed(cleaned):
        _rename_all(disk, directory, base_offset, names.SWAP, "")
    return discarded


def finish_swaps(disk: Disk, directory: Path, files: Sequence[str]) -> list[int]:
    """After a crash: completes the swap if it was committed. Returns the base offsets of its segments."""
    if any(names.offset_of(name, names.LOG + names.CLEANED) is not None for name in files):
        return []
    swapped = (names.offset_of(name, names.LOG + names.SWAP) for name in files)
    # The first segment last, as in `_swap`: as long as it is not renamed, the swap is known to be unfinished.
    finished = sorted((offset for offset in swapped if offset is not None), reverse=True)
    for base_offset in finished:
        end_offset = _end_offset(disk, directory / names.file_name(base_offset, names.LOG + names.SWAP), base_offset)
        for other in files:
            offset = names.offset_of(other, names.LOG)
            if offset is not None and base_offset <= offset < end_offset:
                for suffix in _INDEXES_FIRST:
                    disk.remove(directory / names.file_name(offset, suffix))
    for base_offset in finished:
        _rename_all(disk, directory, base_offset, names.SWAP, "")
    return finished


def _rename_all(disk: Disk, directory: Path, base_offset: int, extension: str, target: str) -> None:
    for suffix in _INDEXES_FIRST:
        path = directory / names.file_name(base_offset, suffix + extension)
        if disk.exists(path):
            disk.rename(path, path.with_name(names.file_name(base_offset, suffix + target)))


def _end_offset(disk: Disk, path: Path, base_offset: int) -> int:
    # Cleaned segments follow each other without a gap, and the last keeps the last batch of all that they replace, if
    # need be without its records. So their end offsets tell which segments those were.
    end_offset = base_offset + 1
    for _, header in scan.headers(disk.open(path), 0, disk.size(path)):
        end_offset = header.next_offset
    return end_offset
