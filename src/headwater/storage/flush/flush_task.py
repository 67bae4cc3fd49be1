"""A flush in three steps: planned on the loop, run in any thread, reported back on the loop.

Write barrier: the offset index of a segment is written after its other indexes. Recovery starts at an entry of the
offset index and trusts that the others know everything before it.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headwater.storage import names
from headwater.storage.disk import Disk, File
from headwater.storage.errors import is_disk_full
from headwater.storage.index import Index
from headwater.storage.segment import Segment


@dataclass(slots=True, eq=False)
class IndexChunk:
    """The entries of one index that are not in its file yet."""

    index: Index
    start: int
    entries: bytes
    revision: int
    is_written: bool = False

    def write(self, disk: Disk) -> None:
        file = disk.open(self.index.path, create=True)
        try:
            file.truncate(self.start)
            if self.entries:
                file.pwritev([self.entries], self.start)
            file.sync_data()
        finally:
            file.close()
        if self.index.is_optional and self.start == 0:
            disk.sync_directory(self.index.path.parent)
        self.is_written = True

    def install(self) -> None:
        # Entries that were replaced since the flush was planned still have to be written.
        if self.is_written and self.revision == self.index.revision:
            self.index.written_bytes = self.start + len(self.entries)


def chunks(segments: Sequence[Segment]) -> Iterator[IndexChunk]:
    for segment in segments:
        if segment.has_pending_entries:
            for index in segment.indexes:
                if index.pending_bytes or not index.is_optional:
                    yield IndexChunk(index, *index.pending(), index.revision)


@dataclass(slots=True, eq=False)
class FlushTask:
    """What one flush brings to disk."""

    disk: Disk
    end_offset: int
    truncations: int
    files: Sequence[File]
    sealed: Sequence[Segment]
    chunks: Sequence[IndexChunk]
    snapshots: Sequence[Path]
    snapshots_stale: Sequence[Path]
    directories: Sequence[Path]
    # The only file to sync, if nothing else is to be done, as in most flushes; otherwise None.
    sole_file: File | None

    def run(self) -> None:
        """After an OSError nobody knows what is on disk: the log must fail and must not try again."""
        for file in self.files:
            file.sync_data()
        for chunk in self.chunks:
            if not self.disk.exists(chunk.index.path.with_suffix(names.LOG)):
                # Retention has removed the segment since then.
                continue
            try:
                chunk.write(self.disk)
            except OSError as error:
                # The entries stay in memory for the next flush: a full disk is no reason to fail a log for an index.
                if not is_disk_full(error):
                    raise
                break
        for path in self.snapshots:
            # Retention may have removed it since then.
            with suppress(FileNotFoundError):
                self.disk.sync_file(path)
        for directory in self.directories:
            self.disk.sync_directory(directory)
        for path in self.snapshots_stale:
            self.disk.remove(path)
