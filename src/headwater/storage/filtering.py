"""What compaction leaves of one batch: all of it, some of its records, its header alone, or nothing."""

from collections.abc import Mapping

from headwater.protocol import batch as batches
from headwater.protocol.batch import BatchHeader
from headwater.protocol.records import Record
from headwater.storage.offset_map import OffsetMap
from headwater.storage.scanning import DECOMPRESSED_BYTES_MAX


class BatchFilter:
    def __init__(
        self,
        offset_map: OffsetMap,
        mapped_end: int,
        producers_last_offsets: Mapping[int, int],
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        self._offset_map = offset_map
        self._mapped_end = mapped_end
        self._producers_last_offsets = producers_last_offsets
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms

    def filter(self, header: BatchHeader, batch: memoryview, *, is_last: bool) -> bytes | bytearray | None:
        """The bytes to keep. A batch that a producer wrote last keeps its header, for the sequence number that it has;
        so does the last batch of all."""
        if header.is_control or header.is_transactional or header.base_offset >= self._mapped_end:
            return bytes(batch)
        records = batches.read_records(batch, header, DECOMPRESSED_BYTES_MAX)
        kept = [record for record in records if self._is_kept(record, header)]
        if not kept:
            return _without_records(header) if is_last or self._is_producers_last(header) else None
        delete_horizon_ms = header.delete_horizon_ms
        if delete_horizon_ms is None and any(record.value is None for record in kept):
            # From now on readers have `delete.retention.ms` to see that the key is deleted.
            delete_horizon_ms = self._now_ms + self._delete_retention_ms
        elif len(kept) == len(records):
            return bytes(batch)
        return batches.build(
            kept,
            base_offset=header.base_offset,
            last_offset_delta=header.last_offset_delta,
            leader_epoch=header.leader_epoch,
            codec=header.codec,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            log_append_time_ms=header.max_timestamp if header.is_log_append_time else None,
            delete_horizon_ms=delete_horizon_ms,
        )

    def _is_kept(self, record: Record, header: BatchHeader) -> bool:
        if record.key is None or not self._offset_map.is_latest(record.key, record.offset):
            return False
        horizon_ms = header.delete_horizon_ms
        return record.value is not None or horizon_ms is None or self._now_ms < horizon_ms

    def _is_producers_last(self, header: BatchHeader) -> bool:
        return self._producers_last_offsets.get(header.producer_id) == header.last_offset


def _without_records(header: BatchHeader) -> bytearray:
    return batches.build(
        [],
        base_offset=header.base_offset,
        last_offset_delta=header.last_offset_delta,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        log_append_time_ms=header.max_timestamp if header.is_log_append_time else None,
        max_timestamp=header.max_timestamp,
    )
