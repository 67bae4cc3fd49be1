"""Puts a cleaned segment in the place of those it was made from. After a crash the swap is completed or undone.

`.cleaned` files are whole and do not belong to the log. The rename of `<base>.log.cleaned` to `<base>.log.swap` is the
commit: from then on the swap files are the log. Indexes are renamed before their `.log`, in and out, so that indexes
beside an old `.log` are old, and indexes without one are new.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from headwater.storage import names
from headwater.storage.disk import Disk
from headwater.storage.recovery import scan
from headwater.storage.segment import Segment

_INDEXES_FIRST: Final = tuple(reversed(names.SEGMENT_FILES))


class Replacement(NamedTuple):
    """A cleaned segment, whole on disk, and the segments that it replaces."""

    replaced: Sequence[Segment]
    size: int
    next_offset: int
    has_aborted: bool


def cleaned_files(segment: Segment) -> list[Path]:
    """The names of the files that replace `segment`, and perhaps others after it."""
    return [segment.path(suffix + names.CLEANED) for suffix in names.SEGMENT_FILES]


def install(segments: Sequence[Segment], replacements: Sequence[Replacement]) -> tuple[list[Segment], list[Path]]:
    """The segments of a log, with the cleaned ones in their places, and files that can be removed. Segments that were
    removed from the log since the compaction was planned stay removed."""
    installed, discarded = list(segments), list[Path]()
    for replacement in replacements:
        if replacement.replaced[0] in installed:
            discarded += _replace(installed, replacement)
        else:
            discarded += cleaned_files(replacement.replaced[0])
    return installed, discarded


def _replace(segments: list[Segment], replacement: Replacement) -> list[Path]:
    """Returns the files of the segments that were replaced, renamed to be removed."""
    head, last = replacement.replaced[0], replacement.replaced[-1]
    place = slice(segments.index(head), segments.index(last) + 1)
    assert segments[place] == list(replacement.replaced), "only the head of a log is ever removed"
    offsets = [segment.base_offset for segment in replacement.replaced]
    discarded = _swap(head.disk, head.directory, head.base_offset, offsets)
    segments[place] = [head.successor(replacement.size, replacement.next_offset, has_aborted=replacement.has_aborted)]
    return discarded


def _swap(disk: Disk, directory: Path, base_offset: int, replaced: Sequence[int]) -> list[Path]:
    _rename_all(disk, directory, base_offset, names.CLEANED, names.SWAP)
    discarded: list[Path] = []
    for offset in replaced:
        for suffix in _INDEXES_FIRST:
            path = directory / names.file_name(offset, suffix)
            if disk.exists(path):
                discarded.append(path.with_name(path.name + names.DELETED))
                disk.rename(path, discarded[-1])
    _rename_all(disk, directory, base_offset, names.SWAP, "")
    return discarded


def finish_swaps(disk: Disk, directory: Path, files: Sequence[str]) -> list[int]:
    """After a crash: completes the swaps that were committed. Returns their base offsets."""
    finished: list[int] = []
    for name in files:
        base_offset = names.offset_of(name, names.LOG + names.SWAP)
        if base_offset is None:
            continue
        end_offset = _end_offset(disk, directory / name, base_offset)
        for other in files:
            offset = names.offset_of(other, names.LOG)
            if offset is not None and base_offset <= offset < end_offset:
                for suffix in _INDEXES_FIRST:
                    disk.remove(directory / names.file_name(offset, suffix))
        _rename_all(disk, directory, base_offset, names.SWAP, "")
        finished.append(base_offset)
    return finished


def _rename_all(disk: Disk, directory: Path, base_offset: int, extension: str, target: str) -> None:
    for suffix in _INDEXES_FIRST:
        path = directory / names.file_name(base_offset, suffix + extension)
        if disk.exists(path):
            disk.rename(path, path.with_name(names.file_name(base_offset, suffix + target)))


def _end_offset(disk: Disk, path: Path, base_offset: int) -> int:
    # A cleaned segment keeps the last batch of those it replaces, if need be without its records. So its end offset
    # tells which segments those were.
    end_offset = base_offset + 1
    for _, header in scan.headers(disk.open(path), 0, disk.size(path)):
        end_offset = header.next_offset
    return end_offset
