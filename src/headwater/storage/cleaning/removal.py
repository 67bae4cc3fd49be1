"""Which files leave with segments that are taken out of a log, and where the rest ends. Unlinking is for a thread."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from pathlib import Path

from headwater.storage import names
from headwater.storage.segment import Segment


def files_of(segments: Iterable[Segment]) -> list[Path]:
    """The `.log` file of each comes first: without it a segment is gone, whatever a crash leaves of the rest."""
    return [segment.path(suffix) for segment in segments for suffix in names.SEGMENT_FILES]


def cut_back(segments: Sequence[Segment], offset: int) -> tuple[Sequence[Segment], list[Path]]:
    """The segments of a log that ends at `offset` from now on, the last of them cut there and active again; and the
    files of the others, newest segment first."""
    count = bisect_right(segments, offset, key=lambda segment: segment.base_offset)
    assert count > 0, "a log is not cut back behind its beginning"
    active = segments[count - 1]
    if active.next_offset > offset or active.is_sealed:
        active.truncate(offset)
    else:
        # A write that failed may have left bytes behind the last batch.
        active.file.truncate(active.size)
    return segments[:count], files_of(reversed(segments[count:]))
