"""What compaction keeps of a batch: all of it, some of its records, its header alone, or nothing."""

from dataclasses import dataclass

from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.batch import BatchHeader
from headwater.protocol.batches.records import Record
from headwater.storage.cleaning.cleaned_transactions import CleanedTransactions
from headwater.storage.cleaning.offset_map import OffsetMap
from headwater.storage.producers.states import ProducerStates
from headwater.storage.recovery.replay import read_marker
from headwater.storage.recovery.scan import DECOMPRESSED_BYTES_MAX


class LastBatches:
    """The batch that each known producer is remembered by: its last data batch, or else the marker with its epoch."""

    def __init__(self, producers: ProducerStates) -> None:
        self._offsets = {state.producer_id: state.last_offset for state in producers if state.batches}
        self._epochs = {state.producer_id: state.producer_epoch for state in producers if not state.batches}

    def __contains__(self, header: BatchHeader) -> bool:
        if header.is_control:
            return self._epochs.get(header.producer_id) == header.producer_epoch
        return self._offsets.get(header.producer_id) == header.last_offset


@dataclass(frozen=True, slots=True)
class BatchFilter:
    offset_map: OffsetMap
    mapped_end: int
    transactions: CleanedTransactions
    last_batches: LastBatches
    now_ms: int
    delete_retention_ms: int

    def filter(self, header: BatchHeader, batch: memoryview, *, is_last: bool) -> bytes | bytearray | None:
        """The bytes to keep. The last batch of a producer keeps at least its header, for its sequence number, and so
        does the last batch of the round."""
        is_last = is_last or header in self.last_batches
        if header.is_control:
            return self._filter_marker(header, batch, is_last=is_last)
        if self.transactions.is_aborted(header):
            return _without_records(header) if is_last else None
        if header.base_offset >= self.mapped_end:
            return bytes(batch)
        records = batches.read_records(batch, header, DECOMPRESSED_BYTES_MAX)
        kept = [record for record in records if self._is_kept(record, header)]
        if not kept:
            return _without_records(header) if is_last else None
        delete_horizon_ms = header.delete_horizon_ms
        if delete_horizon_ms is None and any(record.value is None for record in kept):
            # From now on consumers have `delete.retention.ms` to see the tombstone.
            delete_horizon_ms = self.now_ms + self.delete_retention_ms
        elif len(kept) == len(records):
            return bytes(batch)
        return _with_records(header, kept, delete_horizon_ms)

    def _filter_marker(self, header: BatchHeader, batch: memoryview, *, is_last: bool) -> bytes | bytearray | None:
        """A marker stays for `delete.retention.ms` after the last batch of its transaction is gone: a consumer that has
        read such a batch is to see how the transaction ended. Its record stays, too, for the epoch of the producer."""
        horizon_ms = header.delete_horizon_ms
        marker = read_marker(batch, header)
        if marker is not None and not self.transactions.end(header, marker) and horizon_ms is None:
            records = batches.read_records(batch, header, DECOMPRESSED_BYTES_MAX)
            return _with_records(header, records, self.now_ms + self.delete_retention_ms)
        is_due = header.record_count == 0 or (horizon_ms is not None and horizon_ms <= self.now_ms)
        return None if is_due and not is_last else bytes(batch)

    def _is_kept(self, record: Record, header: BatchHeader) -> bool:
        if record.key is None or not self.offset_map.is_latest(record.key, record.offset):
            return False
        horizon_ms = header.delete_horizon_ms
        return record.value is not None or horizon_ms is None or self.now_ms < horizon_ms


def _with_records(header: BatchHeader, records: list[Record], delete_horizon_ms: int | None) -> bytearray:
    return batches.build(
        records,
        base_offset=header.base_offset,
        last_offset_delta=header.last_offset_delta,
        leader_epoch=header.leader_epoch,
        codec=header.codec,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
        control=header.is_control,
        log_append_time_ms=header.max_timestamp if header.is_log_append_time else None,
        delete_horizon_ms=delete_horizon_ms,
        max_timestamp=None if records else header.max_timestamp,
    )


def _without_records(header: BatchHeader) -> bytearray:
    return _with_records(header, [], None)
