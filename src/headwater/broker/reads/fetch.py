"""Reads from many partitions at once, and the long poll.

A read hands out ranges of files, never their bytes. A fetch that has to wait registers with its partitions and reads
again when one of them moves, at most once per loop turn. Records that an earlier process wrote are verified in a thread
before they are handed out, even if the client's wait time is over.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import NamedTuple

from headwater.broker.partition import Partition
from headwater.broker.pending import Pending
from headwater.errors import ErrorCode, HeadwaterError
from headwater.file_range import FileRange
from headwater.storage.producers.transaction_index import AbortedTransaction
from headwater.storage.recovery.verification import UnverifiedRange

logger = logging.getLogger(__name__)

# The longest wait, whatever the client asks for.
WAIT_MS_MAX = 15 * 60 * 1000


class PartitionFetch(NamedTuple):
    """What a fetch asks of one partition."""

    partition: Partition
    offset: int
    bytes_max: int


class PartitionRead:
    """What one partition gave. Watermarks are -1 with an error."""

    __slots__ = ("aborted", "error", "high_watermark", "last_stable_offset", "log_start_offset", "records")

    def __init__(
        self,
        partition: Partition,
        error: ErrorCode,
        records: FileRange | None,
        aborted: Sequence[AbortedTransaction] | None,
    ) -> None:
        self.error = error
        self.records = records
        # Transactions whose records the client must skip; None for a read_uncommitted client.
        self.aborted = aborted
        if error is ErrorCode.NONE:
            self.high_watermark = partition.high_watermark
            self.last_stable_offset = partition.last_stable_offset
            self.log_start_offset = partition.start_offset
        else:
            self.high_watermark = self.last_stable_offset = self.log_start_offset = -1


class Fetch(Pending[list[PartitionRead]]):
    """A read that resolves at once, or when enough can be read, or when its time is over."""

    __slots__ = (
        "_bytes_max",
        "_bytes_min",
        "_fetches",
        "_has_unverified",
        "_is_expired",
        "_is_read_scheduled",
        "_loop",
        "_timer",
        "committed_only",
    )

    is_abandonable = True

    def __init__(
        self, fetches: Sequence[PartitionFetch], *, bytes_min: int, bytes_max: int, wait_ms: int, committed_only: bool
    ) -> None:
        Pending.__init__(self)  # `super()` costs more than what it finds
        self._fetches = fetches
        self._bytes_min = bytes_min
        self._bytes_max = bytes_max
        self.committed_only = committed_only
        self._is_read_scheduled = self._is_expired = self._has_unverified = False
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        reads, enough = self._read()
        if not self._has_unverified and (enough or wait_ms <= 0 or not fetches):
            self.resolve(reads)
            return
        for fetch in fetches:
            fetch.partition.watchers.add(self)
        self._timer = self._loop.call_later(min(max(wait_ms, 0), WAIT_MS_MAX) / 1000, self.expire)

    def partition_moved(self, partition: Partition) -> None:  # noqa: ARG002 (all partitions are read anyway)
        if not self._is_read_scheduled:
            self._is_read_scheduled = True
            self._loop.call_soon(self._read_again)

    def expire(self) -> None:
        """Stop waiting: reply with what can be read now."""
        self._is_expired = True
        self._read_again()

    def abandon(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            for fetch in self._fetches:
                fetch.partition.watchers.discard(self)

    def _read_again(self) -> None:
        self._is_read_scheduled = False
        if self._timer is None:
            return
        try:
            reads, enough = self._read()
        except Exception as error:
            # The caller is a timer, or a partition that has moved for others, too.
            self.abandon()
            self.fail(error)
            return
        if not self._has_unverified and (enough or self._is_expired):
            self.abandon()
            self.resolve(reads)

    def _read(self) -> tuple[list[PartitionRead], bool]:
        """Read all partitions once. The second value is whether the client need not wait for more."""
        left = self._bytes_max
        total = 0
        failed = False
        self._has_unverified = False
        committed_only = self.committed_only
        reads: list[PartitionRead] = []
        for fetch in self._fetches:
            partition = fetch.partition
            records = None
            aborted = () if committed_only else None
            error = ErrorCode.NONE
            try:
                found = partition.read(
                    fetch.offset,
                    min(fetch.bytes_max, left),
                    limit_offset=partition.last_stable_offset if committed_only else partition.high_watermark,
                    # One batch is always given whole: a consumer could never pass a batch above its limits.
                    first_batch_whole=total == 0,
                )
                if isinstance(found, UnverifiedRange):
                    # The partition wakes this fetch when the range is verified.
                    partition.verify(found)
                    self._has_unverified = True
                else:
                    records = found
                    if committed_only and records is not None:
                        aborted = partition.aborted(records, fetch.offset)
            except HeadwaterError as refusal:
                error = refusal.code
                failed = True
            except OSError as trouble:
                logger.error("%s cannot be read: %s", partition.id, trouble)
                error = ErrorCode.KAFKA_STORAGE_ERROR
                failed = True
            if records is not None:
                total += records.length
                left = max(0, left - records.length)
            reads.append(PartitionRead(partition, error, records, aborted))
        return reads, failed or total >= self._bytes_min
