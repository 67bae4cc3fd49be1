"""What a reader of committed records must not see: the records of transactions that were aborted."""

from collections import deque
from collections.abc import Sequence

from headwater.protocol.batches import batch
from headwater.protocol.batches.batch import BatchHeader
from headwater.protocol.messages.records.fetch import AbortedTransaction

_MARKER_BYTES_MAX = 65_536


class AbortedRecordFilter:
    """The list that came with a fetch, followed along its batches: each must be shown, in order."""

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._coming = deque(sorted(aborted, key=lambda transaction: transaction.first_offset))
        self._aborting: set[int] = set()

    def hides(self, header: BatchHeader, data: memoryview) -> bool:
        while self._coming and self._coming[0].first_offset <= header.last_offset:
            self._aborting.add(self._coming.popleft().producer_id)
        if header.producer_id not in self._aborting:
            return False
        if header.is_control and _is_abort(header, data):
            self._aborting.discard(header.producer_id)
        return header.is_transactional


def _is_abort(header: BatchHeader, data: memoryview) -> bool:
    markers = [batch.read_marker(record) for record in batch.read_records(data, header, _MARKER_BYTES_MAX)]
    return any(marker is not None and not marker.committed for marker in markers)
