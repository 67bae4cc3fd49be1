"""Hides the records of aborted transactions from a read_committed consumer."""

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from headwater.protocol.batches import batch
from headwater.protocol.batches.batch import BatchHeader

_MARKER_BYTES_MAX = 65_536


class AbortedTransaction(Protocol):
    @property
    def producer_id(self) -> int: ...
    @property
    def first_offset(self) -> int: ...


class AbortedRecordFilter:
    """Follows the list of aborted transactions of one fetch along its batches. Every batch must be passed to
    `hides`, in order."""

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._upcoming = deque(sorted(aborted, key=lambda transaction: transaction.first_offset))
        # Producers that are inside an aborted transaction at this point of the log.
        self._aborted_producer_ids: set[int] = set()

    def hides(self, header: BatchHeader, data: memoryview) -> bool:
        while self._upcoming and self._upcoming[0].first_offset <= header.last_offset:
            self._aborted_producer_ids.add(self._upcoming.popleft().producer_id)
        if header.producer_id not in self._aborted_producer_ids:
            return False
        if header.is_control and _is_abort(header, data):
            self._aborted_producer_ids.discard(header.producer_id)
        return header.is_transactional


def _is_abort(header: BatchHeader, data: memoryview) -> bool:
    markers = [batch.read_marker(record) for record in batch.read_records(data, header, _MARKER_BYTES_MAX)]
    return any(marker is not None and not marker.committed for marker in markers)
