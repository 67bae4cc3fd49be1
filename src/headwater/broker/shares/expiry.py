"""Time to live: which records of a topic no share group may be given any more.

Only topics with `headwater.ttl.ms` or `headwater.ttl.enable` come here. When a record's time is over follows from its
timestamp and its header, so that it is computed once per batch and kept. Batches whose records have to be looked into
and that are compressed, large, or not in the page cache are read in a thread, once.
"""

import asyncio
import logging
from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from headwater.broker.partition import Partition
from headwater.broker.shares.log_scan import Scan, Span
from headwater.clock import Clock
from headwater.config.live import LiveConfig
from headwater.config.topic import TopicConfig
from headwater.coordination.shares.commands import LogBatch
from headwater.file_range import ReadableFile
from headwater.ids import TopicId
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches import directives
from headwater.protocol.batches.batch import HEADER_SIZE, NO_TIMESTAMP, Buffer
from headwater.protocol.batches.directives import Heeded, InvalidDirective
from headwater.protocol.batches.records import Record

logger = logging.getLogger(__name__)

# Larger batches are looked into in a thread.
INLINE_BYTES_MAX = 16 << 10
# Of so many records it is kept when their time is over: 16 bytes each.
KEPT_RECORDS_MAX = 250_000
FOREVER = (1 << 63) - 1
_HEEDED = Heeded(delay=False, priority=False, ttl=True)


class _Ends(NamedTuple):
    """When the time of each record of a batch is over, and the settings from which that follows."""

    settings: tuple[bool, int]
    # Compacted batches have gaps.
    offsets: Sequence[int]
    ends_ms: Sequence[int]


class _BatchKey(NamedTuple):
    topic_id: TopicId
    partition: int
    first_offset: int
    size: int


class Expiry:
    def __init__(self, config: LiveConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        # By topic id: another topic of the same name has other records.
        self._known: OrderedDict[_BatchKey, _Ends] = OrderedDict()
        self._kept_records = 0

    def applied(
        self, scan: Scan, topic_id: TopicId, partition: Partition, file: ReadableFile, wake: Callable[[], None]
    ) -> Scan:
        """The scan, with expired records marked as such. It ends before a batch that has to be read first; `wake` is
        called then."""
        now_ms = self._clock.now_ms()
        spans = {span.first: span for span in scan.spans}
        listed: list[LogBatch] = []
        for batch in scan.batches:
            span = spans.get(batch.first)
            if span is None or not batch.is_deliverable:
                listed.append(batch)
                continue
            key = _BatchKey(topic_id, partition.id.partition, span.first, span.size)
            ends = self._ends(key, span, partition, file, now_ms, wake)
            if ends is None:
                return scan._replace(batches=listed, cold_position=None, is_waiting=True)
            listed += _split(batch, ends, now_ms)
        return scan._replace(batches=listed)

    def _ends(
        self,
        key: "_BatchKey",
        span: Span,
        partition: Partition,
        file: ReadableFile,
        now_ms: int,
        wake: Callable[[], None],
    ) -> "_Ends | int | None":
        """When the time of each record is over, or of all of them; None if the batch has to be read first."""
        config = partition.config
        settings = (config.headwater_ttl_enable, config.headwater_ttl_ms)
        known = self._known.get(key)
        if known is not None and known.settings == settings:
            self._known.move_to_end(key)
            return known
        head = file.pread_resident(HEADER_SIZE, span.position)
        if head is not None and not config.headwater_ttl_enable:
            header = batches.read_header(head)
            end_ms = _end_ms(header.max_timestamp, config.headwater_ttl_ms)
            if header.is_log_append_time or header.record_count == 1 or end_ms <= now_ms:
                return end_ms
        if span.size <= INLINE_BYTES_MAX:
            stored = file.pread_resident(span.size, span.position)
            if stored is not None and not batches.read_header(stored).codec:
                found = _look_into(stored, config, self._config.current.headwater_batch_decompressed_bytes_max)
                self._keep(key, found)
                return found
        reading = asyncio.get_running_loop().run_in_executor(
            None, _read, file, span, config, self._config.current.headwater_batch_decompressed_bytes_max
        )

        def read(done: "asyncio.Future[_Ends]") -> None:
            if not done.cancelled():
                if done.exception() is None:
                    self._keep(key, done.result())
                else:
                    logger.error("%s cannot be read at offset %d: %s", partition.id, span.first, done.exception())
                    self._keep(key, _Ends(settings, (), ()))
                wake()

        reading.add_done_callback(read)
        return None

    def _keep(self, key: "_BatchKey", ends: _Ends) -> None:
        replaced = self._known.pop(key, None)
        self._kept_records += len(ends.offsets) - (0 if replaced is None else len(replaced.offsets))
        self._known[key] = ends
        while len(self._known) > 1 and self._kept_records > KEPT_RECORDS_MAX:
            _, dropped = self._known.popitem(last=False)
            self._kept_records -= len(dropped.offsets)


def _split(batch: LogBatch, ends: _Ends | int, now_ms: int) -> Iterator[LogBatch]:
    """The batch in pieces of records that are all alive, or all expired."""
    if isinstance(ends, int):
        yield batch._replace(is_expired=ends <= now_ms)
        return
    offset = batch.first
    start = bisect_left(ends.offsets, batch.first)
    for is_expired, group in groupby(range(start, len(ends.offsets)), lambda at: ends.ends_ms[at] <= now_ms):
        *_, last_at = group
        last = min(ends.offsets[last_at], batch.last)
        if offset > batch.last:
            return
        yield LogBatch(offset, last, True, is_expired)
        offset = last + 1
    if offset <= batch.last:
        # Nothing is known of these: compaction removed them, or the batch is damaged.
        yield LogBatch(offset, batch.last, True)


def _read(file: ReadableFile, span: Span, config: TopicConfig, decompressed_bytes_max: int) -> _Ends:
    return _look_into(file.pread(span.size, span.position), config, decompressed_bytes_max)


def _look_into(stored: Buffer, config: TopicConfig, decompressed_bytes_max: int) -> _Ends:
    header = batches.read_header(stored)
    offsets, ends = array("q"), array("q")
    for record in batches.read_records(stored, header, decompressed_bytes_max):
        offsets.append(record.offset)
        ends.append(_end_of(record, config))
    return _Ends((config.headwater_ttl_enable, config.headwater_ttl_ms), offsets, ends)


def _end_of(record: Record, config: TopicConfig) -> int:
    if config.headwater_ttl_enable and record.headers:
        try:
            ttl_ms = directives.read(record.headers, _HEEDED).ttl_ms
        except InvalidDirective:
            # Written before the topic heeded it: a header like any other.
            ttl_ms = None
        if ttl_ms is not None:
            return _end_ms(record.timestamp, ttl_ms)
    return _end_ms(record.timestamp, config.headwater_ttl_ms)


def _end_ms(timestamp_ms: int, ttl_ms: int) -> int:
    """A record without a time lives as long as one without an end."""
    if ttl_ms < 0 or timestamp_ms == NO_TIMESTAMP:
        return FOREVER
    return min(timestamp_ms + ttl_ms, FOREVER)
