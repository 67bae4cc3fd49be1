"""Compaction: keeps the latest record of every key, and the tombstone of a deleted key for a while.

Planned on the loop, run in a thread, installed on the loop. It touches only sealed and flushed segments before the last
stable offset. Offsets stay. The cleaned files do not belong to the log until they are installed. Records of aborted
transactions are dropped and supersede nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from headwater.config.topic import TopicConfig
from headwater.errors import CorruptBatch
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.batch import BatchHeader, Buffer
from headwater.storage import names
from headwater.storage.cleaning.batch_filter import BatchFilter, LastBatches
from headwater.storage.cleaning.cleaned_transactions import CleanedTransactions
from headwater.storage.cleaning.offset_map import OffsetMap
from headwater.storage.cleaning.swap import CleanedSegment, Replacement
from headwater.storage.disk import Disk, File
from headwater.storage.errors import DiskFull, is_disk_full
from headwater.storage.flush import flush_task
from headwater.storage.log import Log
from headwater.storage.producers import transaction_index
from headwater.storage.producers.transaction_index import AbortedTransaction
from headwater.storage.recovery.replay import read_marker
from headwater.storage.recovery.scan import DECOMPRESSED_BYTES_MAX, Scan, ends_early
from headwater.storage.segment import Segment

_INT32_MAX: Final = 2**31 - 1
_WRITE_BYTES: Final = 1024 * 1024


class SourceSegment(NamedTuple):
    """A segment to clean. Its file was opened on the loop, and stays open even if retention removes the segment."""

    segment: Segment
    file: File
    index_bytes: int


def plan(log: Log, now_ms: int, limit_offset: int) -> "CleaningTask | None":
    """None if the log is clean enough. Nothing beyond `limit_offset`, the last stable offset, is cleaned."""
    config = log.config
    if "compact" not in config.cleanup_policy or log.failure is not None:
        return None
    segments = _cleanable(log, config, now_ms, limit_offset)
    dirty = [segment for segment in segments if segment.next_offset > log.first_dirty_offset]
    dirty_bytes = sum(segment.size for segment in dirty)
    if dirty_bytes == 0:
        return None
    ratio = dirty_bytes / sum(segment.size for segment in segments)
    if ratio <= config.min_cleanable_dirty_ratio and not _is_overdue(dirty, config, now_ms):
        return None
    return CleaningTask(
        log.disk,
        log.directory,
        config,
        [SourceSegment(segment, segment.file, segment.index_bytes) for segment in segments],
        log.first_dirty_offset,
        log.truncations,
        now_ms,
        LastBatches(log.producers),
        log.aborted.stored_from(segments[0].base_offset),
    )


def _cleanable(log: Log, config: TopicConfig, now_ms: int, limit_offset: int) -> list[Segment]:
    segments: list[Segment] = []
    limit_offset = min(limit_offset, log.flushed_offset)
    for segment in log.segments[:-1]:
        if segment.next_offset > limit_offset or segment.has_pending_entries:
            break
        if segment.next_offset > log.first_dirty_offset and _is_too_young(segment, config, now_ms):
            break
        segments.append(segment)
    return segments


def _is_too_young(segment: Segment, config: TopicConfig, now_ms: int) -> bool:
    lag_ms = config.min_compaction_lag_ms
    return lag_ms > 0 and segment.largest_timestamp > now_ms - lag_ms


def _is_overdue(dirty: Sequence[Segment], config: TopicConfig, now_ms: int) -> bool:
    # This reads the first batch of each segment, so it is only done where the setting says so.
    latest = now_ms - config.max_compaction_lag_ms
    return latest > 0 and any(0 < segment.first_timestamp < latest for segment in dirty)


class _Cancelled(Exception):
    pass


@dataclass(slots=True)
class CleaningTask:
    """One round of compaction over sealed segments of one log."""

    disk: Disk
    directory: Path
    config: TopicConfig
    sources: Sequence[SourceSegment]
    first_dirty_offset: int
    truncations: int
    now_ms: int
    last_batches: LastBatches
    aborted: Sequence[bytes]
    replacement: Replacement | None = None

    def run(self, memory_bytes_max: int, cancelled: Callable[[], bool]) -> None:
        """Writes the `.cleaned` files. When cancelled or after an error, none is left and nothing will be installed."""
        try:
            # What an earlier round could not remove: it would make this round's swap look uncommitted.
            self._remove_cleaned()
            aborted = [one for entries in self.aborted for one in transaction_index.decode(entries)]
            offset_map, mapped_end = self._map(memory_bytes_max, aborted, cancelled)
            groups = self._groups(mapped_end)
            keep = BatchFilter(
                offset_map,
                mapped_end,
                CleanedTransactions(aborted),
                self.last_batches,
                self.now_ms,
                self.config.delete_retention_ms,
            )
            if groups:
                replaced = [source.segment for group in groups for source in group]
                self.replacement = Replacement(replaced, self._clean_all(groups, keep, cancelled))
                self.first_dirty_offset = mapped_end
        except _Cancelled:
            return
        except OSError as error:
            if is_disk_full(error):
                raise DiskFull(f"{self.directory.name}: no space for compaction") from error
            raise
        finally:
            if self.replacement is None:
                self._remove_cleaned()

    def _remove_cleaned(self) -> None:
        for name in self.disk.list(self.directory):
            if name.endswith(names.CLEANED):
                self.disk.remove(self.directory / name)

    def _map(
        self, memory_bytes_max: int, aborted: Sequence[AbortedTransaction], cancelled: Callable[[], bool]
    ) -> tuple[OffsetMap, int]:
        """The latest offset of each key in the dirty part, and up to where it was read: as far as the memory lasts."""
        offset_map, mapped_end = OffsetMap(memory_bytes_max), self.first_dirty_offset
        dirty = [source for source in self.sources if source.segment.next_offset > self.first_dirty_offset]
        dirty_base = dirty[0].segment.base_offset
        transactions = CleanedTransactions(one for one in aborted if one.last_offset >= dirty_base)
        for source in dirty:
            for header, batch in _batches(source, cancelled):
                if header.is_control:
                    marker = read_marker(batch, header)
                    if marker is not None:
                        transactions.end(header, marker)
                elif not transactions.is_aborted(header) and header.next_offset > mapped_end:
                    # The first batch is always mapped, or compaction with little memory would never get past it.
                    is_first = mapped_end == self.first_dirty_offset
                    for record in batches.read_records(batch, header, DECOMPRESSED_BYTES_MAX):
                        if record.key is not None and not offset_map.put(record.key, record.offset, is_forced=is_first):
                            return offset_map, mapped_end
                mapped_end = max(mapped_end, header.next_offset)
        return offset_map, mapped_end

    def _groups(self, mapped_end: int) -> list[list[SourceSegment]]:
        """Groups neighbours that fit into one segment, so that cleaning does not leave ever smaller segments."""
        groups: list[list[SourceSegment]] = []
        size = index_bytes = 0
        for source in self.sources:
            segment = source.segment
            if segment.base_offset >= mapped_end or mapped_end == self.first_dirty_offset:
                break
            size += segment.size
            index_bytes += source.index_bytes
            if (
                not groups
                or size > self.config.segment_bytes
                or index_bytes > self.config.segment_index_bytes
                or segment.next_offset - groups[-1][0].segment.base_offset > _INT32_MAX
            ):
                groups.append([])
                size, index_bytes = segment.size, source.index_bytes
            groups[-1].append(source)
        return groups

    def _clean_all(
        self, groups: Sequence[Sequence[SourceSegment]], keep: BatchFilter, cancelled: Callable[[], bool]
    ) -> list[CleanedSegment]:
        """The cleaned segments follow each other without a gap: each begins where the last batch of the one before it
        ends. Only the last has to end where its sources did, where the next segment of the log begins: as in Kafka, it
        keeps their last batch, if need be without its records."""
        cleaned: list[CleanedSegment] = []
        base_offset = groups[0][0].segment.base_offset
        for group, following in zip(groups, [*groups[1:], None], strict=True):
            # An index has no room for an offset that is too far behind the base of its segment.
            keeps_end = following is None or following[-1].segment.next_offset - base_offset > _INT32_MAX
            one = self._clean(group, base_offset, keep, cancelled, keeps_end=keeps_end)
            if one.size:
                cleaned.append(one)
                base_offset = one.next_offset
        return cleaned

    def _clean(
        self,
        group: Sequence[SourceSegment],
        base_offset: int,
        keep: BatchFilter,
        cancelled: Callable[[], bool],
        *,
        keeps_end: bool,
    ) -> CleanedSegment:
        end_offset = group[-1].segment.next_offset
        cleaned = Segment(
            self.disk,
            self.directory,
            base_offset,
            extension=names.CLEANED,
            is_new=True,
            now_ms=self.now_ms,
            interval_bytes=self.config.index_interval_bytes,
            report=_say_nothing,
        )
        cleaned.file.truncate(0)
        pending: list[tuple[BatchHeader, Buffer]] = []
        pending_bytes = 0
        for source in group:
            for header, batch in _batches(source, cancelled):
                kept = keep.filter(header, batch, is_last=keeps_end and header.next_offset == end_offset)
                if kept is None:
                    continue
                pending.append((batches.read_header(kept), kept))
                pending_bytes += len(kept)
                if pending_bytes >= _WRITE_BYTES:
                    cleaned.append(pending)
                    pending, pending_bytes = [], 0
        if pending:
            cleaned.append(pending)
        if cleaned.size:
            cleaned.seal()
            for aborted in keep.transactions.take_needed():
                cleaned.note_aborted(aborted)
            cleaned.file.sync_data()
            for chunk in flush_task.chunks([cleaned]):
                chunk.write(self.disk)
        return CleanedSegment(base_offset, cleaned.size, cleaned.next_offset, has_aborted=cleaned.aborted is not None)


def _batches(source: SourceSegment, cancelled: Callable[[], bool]) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Verified batches: a damaged one stops the cleaning, and is never rewritten with a valid checksum."""
    segment = source.segment
    scan = Scan(source.file, 0, segment.size, segment.base_offset, segment.next_offset)
    for _, header, batch in scan:
        if cancelled():
            raise _Cancelled
        yield header, batch
    problem = scan.problem
    if problem is None and scan.next_offset != segment.next_offset:
        problem = ends_early(scan.next_offset, segment.next_offset)
    if problem is not None:
        raise CorruptBatch(f"{segment.path(names.LOG).name}: {problem}")


def _say_nothing(_: str) -> None:
    return
