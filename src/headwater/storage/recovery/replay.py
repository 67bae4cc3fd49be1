"""Rebuilds state from batches: producer states since the newest whole snapshot, aborted transactions, and the leader
epochs if their file is lost.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from headwater.errors import CorruptBatch, HeadwaterError
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.batch import BatchHeader, Buffer, Marker
from headwater.storage.epochs import LeaderEpochs
from headwater.storage.producers.snapshot_files import SnapshotFiles
from headwater.storage.producers.snapshot_format import DamagedSnapshot
from headwater.storage.producers.states import ProducerStates
from headwater.storage.producers.transaction_index import AbortedTransaction
from headwater.storage.recovery import scan
from headwater.storage.segment import Segment

# How far before a snapshot the log is read for older batches of the producers, of which a snapshot has only the last.
_RECALL_BYTES: Final = 1024 * 1024
_MARKER_BYTES_MAX: Final = 64 * 1024


def load_producers(
    segments: Sequence[Segment],
    snapshots: SnapshotFiles,
    end_offset: int,
    report: Callable[[str], None],
    *,
    recall: bool = True,
) -> ProducerStates:
    """The states at `end_offset`. Damaged snapshots are reported and removed. Without `recall` no batch is read where
    there is a snapshot at `end_offset`."""
    producers, offset = ProducerStates(), segments[0].base_offset
    while (newest := snapshots.newest) is not None:
        try:
            producers, offset = ProducerStates(snapshots.read_newest()), newest
            break
        except (DamagedSnapshot, FileNotFoundError) as damage:
            report(str(damage))
            snapshots.forget_newest()
    if recall or offset < end_offset:
        recall_producers(producers, segments, offset)
    for segment, position, header in _batches_from(segments, offset):
        _replay(producers, segment, position, header)
    # The transactions whose markers were read are decided.
    producers.transactions.stable_before(end_offset)
    return producers


def rebuild_aborted(segments: Sequence[Segment], snapshots: SnapshotFiles, start_offset: int, end_offset: int) -> None:
    """Adds the aborted transactions whose markers lie in [start_offset, end_offset) to the indexes of their segments,
    which have none of them. The first offsets come from a snapshot before the range and the batches since then."""
    states, offset = snapshots.read_before(start_offset) or ((), segments[0].base_offset)
    producers = ProducerStates(states)
    for segment, position, header in _batches_from(segments, offset):
        if header.base_offset >= end_offset:
            return
        aborted = _replay(producers, segment, position, header)
        if aborted is not None and aborted.last_offset >= start_offset:
            segment.note_aborted(aborted)


def _replay(
    producers: ProducerStates, segment: Segment, position: int, header: BatchHeader
) -> AbortedTransaction | None:
    if not header.is_control:
        producers.update(header, header.max_timestamp)
        return None
    marker = read_marker(segment.file.pread(min(header.size, _MARKER_BYTES_MAX), position), header)
    if marker is None:
        return None
    aborted = producers.end_transaction(header, marker, header.max_timestamp)
    producers.transactions.stable_before(header.next_offset)
    return aborted


def read_marker(batch: Buffer, header: BatchHeader) -> Marker | None:
    """None for a control batch of another kind, and for one whose record compaction has removed."""
    try:
        records = batches.read_records(batch, header, _MARKER_BYTES_MAX)
        return batches.read_marker(records[0]) if records else None
    except HeadwaterError:
        return None


def recall_producers(producers: ProducerStates, segments: Sequence[Segment], offset: int) -> None:
    """Adds the batches that were appended shortly before `offset` to the states at `offset`."""
    producers.recall(_headers_before(segments, offset))


def _headers_before(segments: Sequence[Segment], offset: int) -> Iterator[BatchHeader]:
    number = bisect_left(segments, offset, key=lambda segment: segment.base_offset) - 1
    if number >= 0:
        segment = segments[number]
        end = segment.locate(offset)
        start = segment.batch_start(max(end - _RECALL_BYTES, 0))
        for _, header in scan.headers(segment.file, start, end):
            yield header


def _batches_from(segments: Sequence[Segment], offset: int) -> Iterator[tuple[Segment, int, BatchHeader]]:
    for segment in segments:
        if segment.next_offset > offset:
            start = segment.locate(offset)
            for position, header in scan.headers(segment.file, start, segment.size):
                yield segment, position, header


def replay_epochs(segments: Sequence[Segment]) -> LeaderEpochs:
    """Epochs never fall from batch to batch, so each segment is read only until the first epoch of the next."""
    epochs = LeaderEpochs()
    following = [next((epoch for epoch, _ in _epochs_of(segment)), None) for segment in segments[1:]]
    for segment, next_epoch in zip(segments, [*following, None], strict=True):
        for epoch, base_offset in _epochs_of(segment):
            if epoch > epochs.latest:
                epochs.assign(epoch, base_offset)
            if epoch == next_epoch:
                break
    return epochs


def _epochs_of(segment: Segment) -> Iterator[tuple[int, int]]:
    with suppress(CorruptBatch):
        for _, header in scan.headers(segment.file, 0, segment.size):
            yield header.leader_epoch, header.base_offset
