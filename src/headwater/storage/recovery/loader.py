"""Loads a log from its files: after a clean shutdown it trusts them, after a crash it verifies the unflushed tail.

Law: what is kept is a prefix of what was appended. A torn tail is cut behind the last whole valid batch, a segment
behind a gap is dropped, and both changes are on disk before the log takes an append.
"""

import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from headwater.config.topic import TopicConfig
from headwater.errors import CorruptBatch
from headwater.storage import checkpoints, names
from headwater.storage.checkpoints import DamagedCheckpoint
from headwater.storage.cleaning.swap import finish_swaps
from headwater.storage.disk import Disk
from headwater.storage.epochs import LeaderEpochs
from headwater.storage.index import DamagedIndex
from headwater.storage.producers.snapshot_files import SnapshotFiles
from headwater.storage.recovery.log_contents import LogContents, new_segment
from headwater.storage.recovery.replay import load_producers, read_marker, rebuild_aborted, replay_epochs
from headwater.storage.recovery.scan import Scan
from headwater.storage.segment import Segment

logger = logging.getLogger(__name__)

_OFFSETS_MAX: Final = 2**31
_LEFTOVERS: Final = (names.DELETED, names.CLEANED, names.SWAP, names.TEMPORARY)


class Loader:
    """Loads one log once. `_found` collects what was not as expected, for one line of the process's log."""

    def __init__(
        self, disk: Disk, directory: Path, config: TopicConfig, now_ms: int, report: Callable[[str], None]
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._config = config
        self._now_ms = now_ms
        self._report = report
        self._found: list[str] = []
        self._is_changed = False
        self._scanned_bytes = 0
        # From this offset on, aborted transactions have to be found again from their markers; None: nowhere.
        self._aborted_from: int | None = None

    def load(self, *, clean: bool, recovery_point: int, start_offset: int) -> LogContents:
        files = self._tidy()
        segments = self._segments(files, start_offset)
        epochs_on_disk = self._epochs(files)
        epochs = epochs_on_disk or LeaderEpochs()
        if clean and not _ends_at(segments, recovery_point):
            self._found.append(f"not as a clean shutdown at offset {recovery_point} leaves it")
            clean = False
        if clean:
            segments[-1].next_offset = recovery_point
        else:
            self._recover(segments, recovery_point, epochs)
        if not segments or segments[-1].next_offset < start_offset:
            self._start_again(segments, start_offset)
        _check_cut(segments[-1].next_offset, recovery_point, f"the log ends at offset {segments[-1].next_offset}")
        if epochs_on_disk is None:
            epochs = replay_epochs(segments)
        loaded = LogContents(
            segments,
            self._snapshots(files, segments),
            max(start_offset, segments[0].base_offset),
            segments[-1].next_offset,
            min(recovery_point, segments[-1].next_offset),
            epochs=epochs,
            is_recovered=not clean,
            verified_bytes=self._scanned_bytes,
            # After a crash nobody knows whether the names of the newest segments are on disk.
            directories_unsynced=() if clean else [self._directory],
        )
        # The latest epoch stays even if the log has none of its batches (any more), so that no epoch is used twice.
        latest = epochs.latest
        epochs.truncate_end(loaded.end_offset)
        epochs.assign(latest, loaded.end_offset)
        epochs.truncate_start(loaded.start_offset)
        loaded.first_dirty_offset = self._first_dirty_offset(files, loaded)
        if self._aborted_from is not None:
            rebuild_aborted(segments, loaded.snapshots, self._aborted_from, loaded.end_offset)
        loaded.producers = load_producers(
            segments, loaded.snapshots, loaded.end_offset, self._found.append, recall=not clean
        )
        if self._is_changed:
            self._disk.sync_directory(self._directory)
        self._tell(recovery_point, loaded.end_offset, clean)
        return loaded

    def _tell(self, recovery_point: int, end_offset: int, clean: bool) -> None:
        action = (
            f"opened at offset {end_offset}"
            if clean
            else f"recovered from offset {recovery_point} to {end_offset}, {self._scanned_bytes} bytes verified"
        )
        if self._found:
            self._report("; ".join([action, *self._found]))
        elif not clean:
            logger.debug("%s: %s; nothing was damaged", self._directory.name, action)

    # -- files

    def _tidy(self) -> set[str]:
        """Completes or undoes what a crash interrupted. Returns the names of the files that are left."""
        files = self._disk.list(self._directory)
        finished = finish_swaps(self._disk, self._directory, files)
        if finished:
            self._is_changed = True
            self._found.append(f"completed the compaction of {len(finished)} segments")
            files = self._disk.list(self._directory)
        bases = {names.offset_of(name, names.LOG) for name in files}
        orphans = [
            name
            for name in files
            if name.endswith(_LEFTOVERS)
            or any(
                (offset := names.offset_of(name, suffix)) is not None and offset not in bases
                for suffix in names.INDEXES
            )
        ]
        if orphans:
            self._found.append(f"removed {len(orphans)} leftover files")
        # Swap files first: once no cleaned file is left, they would count as committed.
        for name in sorted(orphans, key=lambda name: not name.endswith(names.SWAP)):
            self._remove(name)
        return set(files) - set(orphans)

    def _remove(self, name: str) -> None:
        self._disk.remove(self._directory / name)
        self._is_changed = True

    def _drop(self, segments: Sequence[Segment]) -> None:
        # Newest first: a crash in between leaves a prefix.
        for segment in reversed(segments):
            for suffix in names.SEGMENT_FILES:
                self._remove(names.file_name(segment.base_offset, suffix))

    def _drop_before(self, segments: Sequence[Segment], start_offset: int) -> None:
        size = sum(segment.size for segment in segments)
        if size:
            self._found.append(
                f"removed {len(segments)} segments of {size} bytes that end before the start offset {start_offset}"
            )
        self._drop(segments)

    def _segments(self, files: set[str], start_offset: int) -> list[Segment]:
        bases = sorted(offset for name in files if (offset := names.offset_of(name, names.LOG)) is not None)
        segments = [
            Segment(
                self._disk,
                self._directory,
                base_offset,
                size=self._disk.size(self._directory / names.file_name(base_offset, names.LOG)),
                next_offset=next_base,
                is_sealed=next_base is not None,
                has_aborted=names.file_name(base_offset, names.TRANSACTION_INDEX) in files,
                now_ms=self._now_ms,
                interval_bytes=self._config.index_interval_bytes,
                report=self._report,
            )
            for base_offset, next_base in zip(bases, [*bases[1:], None], strict=False)
        ]
        # Segments that had been deleted, if the crash had not undone it.
        count = max(bisect_right(bases, start_offset) - 1, 0)
        self._drop_before(segments[:count], start_offset)
        return segments[count:]

    def _epochs(self, files: set[str]) -> LeaderEpochs | None:
        path = self._directory / names.LEADER_EPOCHS
        if names.LEADER_EPOCHS not in files:
            return None
        try:
            return LeaderEpochs.decode(self._disk.read_file(path), path)
        except DamagedCheckpoint as damage:
            self._found.append(str(damage))
            return None

    def _snapshots(self, files: set[str], segments: Sequence[Segment]) -> SnapshotFiles:
        """Keeps the snapshot at the base of each segment and the newest one, and removes the others."""
        offsets = sorted(offset for name in files if (offset := names.offset_of(name, names.SNAPSHOT)) is not None)
        valid = [offset for offset in offsets if offset <= segments[-1].next_offset]
        bases = {segment.base_offset for segment in segments}
        kept = [offset for offset in valid if offset in bases or offset == valid[-1]]
        for offset in offsets:
            if offset not in kept:
                self._remove(names.file_name(offset, names.SNAPSHOT))
        return SnapshotFiles(self._disk, self._directory, kept)

    def _first_dirty_offset(self, files: set[str], loaded: LogContents) -> int:
        path = self._directory / names.CLEANER_CHECKPOINT
        if names.CLEANER_CHECKPOINT in files:
            try:
                offset = int(checkpoints.decode(self._disk.read_file(path), path, 1)[0][0])
            except (DamagedCheckpoint, ValueError, IndexError):
                self._found.append(f"{path.name} is damaged, everything counts as uncompacted")
            else:
                if loaded.start_offset <= offset <= loaded.end_offset:
                    return offset
        return loaded.start_offset

    # -- after a crash

    def _recover(self, segments: list[Segment], recovery_point: int, epochs: LeaderEpochs) -> None:
        first = max(bisect_right(segments, recovery_point, key=lambda segment: segment.base_offset) - 1, 0)
        next_offset = segments[first].base_offset if segments else 0
        for number in range(first, len(segments)):
            segment = segments[number]
            if segment.base_offset != next_offset:
                problem = f"segment {segment.base_offset} follows offset {next_offset}"
                _check_cut(next_offset, recovery_point, problem)
                self._drop_after(segments, number, problem)
                return
            problem = self._scan(segment, recovery_point, epochs)
            next_offset = segment.next_offset
            if problem is not None:
                self._drop_after(segments, number + 1, problem)
                return
            if segment.is_sealed:
                segment.seal()

    def _drop_after(self, segments: list[Segment], number: int, problem: str) -> None:
        dropped = segments[number:]
        if dropped:
            self._found.append(f"dropped {len(dropped)} segments: {problem}")
            self._drop(dropped)
            del segments[number:]
        if segments:
            segments[-1].unseal()

    def _scan(self, segment: Segment, recovery_point: int, epochs: LeaderEpochs) -> str | None:
        """Verifies a segment from the last index entry before the recovery point. Returns the problem, if any."""
        start = self._scan_start(segment, recovery_point)
        size = segment.size
        limit_offset = segment.next_offset if segment.is_sealed else segment.base_offset + _OFFSETS_MAX
        aborted_from = self._forget_aborted(segment, segment.rewind(start))
        segment.next_offset = segment.base_offset
        # The active segment was never compacted.
        synced_offset = 0 if segment.is_sealed else recovery_point
        scan = Scan(segment.file, start, size, segment.base_offset, limit_offset, synced_offset)
        for position, header, batch in scan:
            segment.note(header, position)
            if header.leader_epoch > epochs.latest:
                epochs.assign(header.leader_epoch, header.base_offset)
            if header.is_control and self._aborted_from is None:
                marker = read_marker(batch, header)
                if marker is not None and not marker.committed:
                    self._aborted_from = aborted_from
        self._scanned_bytes += scan.position - start
        if scan.problem is None:
            return None
        _check_cut(scan.next_offset, recovery_point, f"{segment.path(names.LOG).name}: {scan.problem}")
        problem = f"cut {size - scan.position} bytes of {segment.path(names.LOG).name}: {scan.problem}"
        self._found.append(problem)
        segment.cut(scan.position)
        segment.file.sync_data()
        self._is_changed = True
        return problem

    def _forget_aborted(self, segment: Segment, next_offset: int) -> int:
        """The offset from which on the segment's index of aborted transactions knows nothing, after it was rewound."""
        if segment.aborted is None or not segment.aborted.is_damaged:
            return next_offset
        self._found.append(f"{segment.aborted.path.name} is damaged, built anew")
        segment.aborted.reset()
        if self._aborted_from is None:
            self._aborted_from = segment.base_offset
        return segment.base_offset

    def _scan_start(self, segment: Segment, recovery_point: int) -> int:
        if recovery_point <= segment.base_offset:
            segment.reset_indexes()
            return 0
        try:
            if segment.offset_index.is_ascending() and segment.time_index.is_ascending():
                entry = segment.offset_index.lookup(recovery_point - 1)
                if entry is not None and segment.holds(entry):
                    return entry.position
        except DamagedIndex as damage:
            self._found.append(f"{damage}, built anew")
        segment.reset_indexes()
        return 0

    def _start_again(self, segments: list[Segment], start_offset: int) -> None:
        """Begins an empty segment: the log has nothing at or behind its start offset."""
        self._drop_before(segments, start_offset)
        self._is_changed = True
        segments[:] = [
            new_segment(
                self._disk, self._directory, start_offset, self._config, now_ms=self._now_ms, report=self._report
            )
        ]


def _check_cut(end_offset: int, recovery_point: int, problem: str) -> None:
    """A tail that a crash left is cut off. But everything before the recovery point was on disk: a batch that is
    missing there has rotted or was lost, and only a person may decide to cut off all that follows it."""
    if end_offset < recovery_point:
        raise CorruptBatch(
            f"{problem}, and everything before offset {recovery_point} had been on disk: "
            f"see `headwater log verify`, which cuts it off with --repair"
        )


def _ends_at(segments: Sequence[Segment], end_offset: int) -> bool:
    if not segments:
        return False
    active = segments[-1]
    return end_offset > active.base_offset if active.size else end_offset == active.base_offset
