"""What goes out of a log: its head by retention and deletion, its end by truncation.

These are operations of `Log`, which calls them. Files are renamed here and removed elsewhere: that may take a while.
"""

from bisect import bisect_right
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.storage import names
from headwater.storage.cleaning import retention
from headwater.storage.cleaning.garbage import Garbage, discard
from headwater.storage.errors import LogFailed

if TYPE_CHECKING:
    from headwater.storage.log import Log


def expire(log: "Log", now_ms: int, limit_offset: int) -> Garbage:
    log.keep_rebuilt_indexes()
    for segment in log.segments:
        segment.rest()
    count = retention.expired_count(
        log.segments, log.config, start_offset=log.start_offset, limit_offset=limit_offset, now_ms=now_ms
    )
    if count == len(log.segments):
        log.roll(now_ms)
    return _drop_head(log, count)


def advance_start(log: "Log", offset: int) -> Garbage:
    log.start_offset = offset
    return _drop_head(log, bisect_right(log.segments, offset, key=lambda segment: segment.base_offset) - 1)


def _drop_head(log: "Log", count: int) -> Garbage:
    dropped, kept = log.segments[:count], log.segments[count:]
    log.segments = kept
    log.aborted.refresh(kept)
    log.start_offset = max(log.start_offset, kept[0].base_offset)
    log.epochs.truncate_start(log.start_offset)
    log.first_dirty_offset = max(log.first_dirty_offset, log.start_offset)
    log.sealed_unflushed = [segment for segment in log.sealed_unflushed if segment not in dropped]
    # The `.log` file goes first: without it a segment is gone, whatever a crash leaves of the rest.
    paths = [segment.path(suffix) for segment in dropped for suffix in names.SEGMENT_FILES]
    try:
        return discard(log.disk, paths + log.snapshots.cut_before(kept[0].base_offset))
    except OSError as error:
        log.fail(f"removal failed: {error}")
        raise LogFailed(f"{log.directory.name}: {log.failure}") from error


def truncate(log: "Log", offset: int) -> Garbage:
    try:
        paths = cut_back(log, offset)
        log.epochs.truncate_end(offset)
        log.epochs.write(log.disk, log.directory)
        log.rebuild_producers()
        return discard(log.disk, paths)
    except OSError as error:
        log.fail(f"truncation failed: {error}")
        raise LogFailed(f"{log.directory.name}: {log.failure}") from error


def cut_back(log: "Log", offset: int) -> list[Path]:
    """Makes `offset` the end again. Gives the files that no longer belong to the log, newest segment first."""
    segments = log.segments
    assert offset >= segments[0].base_offset, "a log is not cut back behind its beginning"
    paths: list[Path] = []
    while segments[-1].base_offset > offset:
        paths += [segments[-1].path(suffix) for suffix in names.SEGMENT_FILES]
        segments.pop()
    active = log.active = segments[-1]
    log.sealed_unflushed = [s for s in log.sealed_unflushed if s in segments and s is not active]
    if active.next_offset > offset or active.is_sealed:
        active.truncate(offset)
    else:
        active.file.truncate(active.size)
    log.aborted.refresh(segments)
    log.end_offset = offset
    log.start_offset = min(log.start_offset, offset)
    log.flushed_offset = min(log.flushed_offset, offset)
    log.truncations += 1
    log.first_dirty_offset = min(log.first_dirty_offset, offset)
    log.directories_to_sync = log.directories_to_sync or [log.directory]
    return paths + log.snapshots.cut_after(offset)
