"""A flush in three steps: planned on the loop, run in any thread, reported back on the loop. Between two flushes a log
collects what the next one has to cover besides the end of its active segment.

Write barrier: the offset index of a segment is written after its other indexes. Recovery starts at an entry of the
offset index and trusts that the others know everything before it.
"""

from collections.abc import Iterator, Sequence, Sized
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headwater.storage import names
from headwater.storage.disk import Disk, File
from headwater.storage.errors import is_disk_full
from headwater.storage.index import Index
from headwater.storage.producers.snapshot_files import SnapshotFiles
from headwater.storage.segment import Segment

# How far the active segment grows before a flush also writes its index entries and a producer snapshot: recovery reads
# that much besides the unflushed tail. The more producers a snapshot holds, the more it costs and the rarer it is.
_CHECKPOINT_BYTES: Final = 8 * 1024 * 1024
_CHECKPOINT_BYTES_PER_PRODUCER: Final = 1024


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


class FlushBacklog:
    """What the next flush of a log has to cover."""

    __slots__ = ("_checkpointed_bytes", "_directories", "_directory", "_disk", "_snapshots", "sealed")

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        snapshots: SnapshotFiles,
        sealed: Sequence[Segment],
        directories: Sequence[Path],
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._snapshots = snapshots
        # Sealed segments whose batches, or whose index entries, are not all on disk.
        self.sealed = list(sealed)
        # Directories in which names have changed.
        self._directories = list(directories)
        # Size of the active segment when its index entries were last written.
        self._checkpointed_bytes = 0

    @property
    def is_empty(self) -> bool:
        return not (self.sealed or self._directories or self._snapshots.has_unsynced)

    def is_checkpoint_due(self, active: Segment, producers: Sized) -> bool:
        """Whether the next flush should also write the index entries of the active segment, and a snapshot of
        `producers`: the larger the snapshot, the more seldom."""
        surplus = active.size - self._checkpointed_bytes - _CHECKPOINT_BYTES
        return surplus >= 0 and surplus >= len(producers) * _CHECKPOINT_BYTES_PER_PRODUCER

    def add_sealed(self, segment: Segment) -> None:
        """The segment was active until now; the file of the next one is new in the directory."""
        self.sealed.append(segment)
        self._checkpointed_bytes = 0
        self.add_directory()

    def add_rebuilt(self, sealed: Sequence[Segment]) -> None:
        """Adds the segments whose indexes were damaged and rebuilt: their files are still to be replaced."""
        for segment in sealed:
            if segment.has_pending_entries and segment not in self.sealed:
                self.sealed.append(segment)

    def add_directory(self) -> None:
        """Names in the log's directory have changed."""
        self._directories = self._directories or [self._directory]

    def forget_directories(self) -> None:
        """The caller has synced them."""
        self._directories = []

    def retain(self, sealed: Sequence[Segment]) -> None:
        """The log has no other sealed segments any more."""
        self.sealed = [segment for segment in self.sealed if segment in sealed]

    def plan(self, active: Segment, end_offset: int, truncations: int, *, with_active_indexes: bool) -> FlushTask:
        """Takes all there is into one task, but keeps the sealed segments until that is `complete`."""
        if with_active_indexes:
            self._checkpointed_bytes = active.size
        sealed = tuple(self.sealed)
        directories, self._directories = self._directories, []
        files = [segment.file for segment in (*sealed, active)]
        index_chunks = list(chunks([*sealed, active] if with_active_indexes else sealed))
        snapshots, snapshots_stale = self._snapshots.take_unsynced()
        is_sync_only = not (sealed or index_chunks or snapshots or snapshots_stale or directories)
        return FlushTask(
            self._disk,
            end_offset,
            truncations,
            files,
            sealed,
            index_chunks,
            snapshots,
            snapshots_stale,
            directories,
            sole_file=files[0] if is_sync_only else None,
        )

    def complete(self, task: FlushTask) -> None:
        """The task ran without an error. Segments whose index entries a full disk kept out stay in the backlog."""
        for chunk in task.chunks:
            chunk.install()
        self.sealed = [segment for segment in self.sealed if segment not in task.sealed or segment.has_pending_entries]
