"""A streaming read: the end of the next micro-batch, and its tasks."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from headwater.clock import Clock, SystemClock
from headwater.errors import HeadwaterError
from headwater.ids import TopicPartition
from headwater.spark.errors import sentence_only
from headwater.spark.options import client_settings
from headwater.spark.options.read_options import ReadOptions, read_options
from headwater.spark.reads import loss
from headwater.spark.reads.columns import check_columns
from headwater.spark.reads.dead_letter_columns import check_letter_topics
from headwater.spark.reads.offsets import OffsetFinder, PartitionOffsets, from_json, to_json
from headwater.spark.reads.plan import count_between, limited, ranges_between, split
from headwater.spark.reads.progress import QueryProgress
from headwater.spark.reads.range_reader import RangePartition, read_range


def stream_reader(given: Mapping[str, str], schema: StructType) -> DataSourceStreamReader:
    options = read_options(given, is_streaming=True)
    client_settings.warn_of_reads(given)
    check_columns(schema, given)
    return HeadwaterStreamReader(options, schema)


class HeadwaterStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark keeps one instance on the driver as long as the query lives, and sends copies of another to the tasks."""

    def __init__(self, options: ReadOptions, schema: StructType, clock: Clock | None = None) -> None:
        self._options = options
        self._schema = schema
        self._clock = clock or SystemClock()
        self._progress = QueryProgress(options)
        self._initial: PartitionOffsets | None = None
        # The end of a query with trigger `availableNow`, which reads only the records that exist at its start.
        self._target: PartitionOffsets | None = None
        # None before the first batch, which starts at once whatever `minOffsetsPerTrigger` says.
        self._last_batch_ms: int | None = None

    # -- the driver

    @sentence_only()
    def initialOffset(self) -> dict[str, Any]:
        """Cached: Spark asks more than once before the first batch is done, and "latest" must not move in between."""
        if self._initial is None:
            options = self._options
            finder = self._finder()
            cluster = options.broker_address.cluster()
            partitions = options.topics.find(cluster)
            if options.dead_letters:
                check_letter_topics(cluster, partitions)
            self._initial = finder.resolve(
                options.starting, partitions, late_times_allowed=options.is_latest_for_late_times
            )
        return to_json(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:
        offsets_max = self._options.offsets_per_trigger_max
        return ReadAllAvailable() if offsets_max is None else ReadMaxRows(offsets_max)

    @sentence_only()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        start_offsets = from_json(start)
        # Spark asks for the next batch when the previous one is done, so all records before its start are processed.
        self._progress.reached(self._options.broker_address.cluster(), start_offsets)
        if self._last_batch_ms is None and self._begins_at_end(start_offsets):
            # Spark's checkpoint contains the ends of batches but not the start of the first. An empty first batch
            # records the start, so that later records are read even if the query stops before its next batch.
            self._last_batch_ms = self._clock.monotonic_ms()
            return start
        available = self._available(start_offsets)
        starts = self._with_new(start_offsets, available)
        if self._shall_wait(count_between(starts, available)):
            return start
        self._last_batch_ms = self._clock.monotonic_ms()
        return to_json(limited(starts, available, limit.max_rows) if isinstance(limit, ReadMaxRows) else available)

    @sentence_only()
    def reportLatestOffset(self) -> dict[str, Any]:
        return to_json(self._finder().latest(self._find()))

    @sentence_only()
    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._finder().latest(self._find())

    @sentence_only()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        options = self._options
        start_offsets, ends = from_json(start), from_json(end)
        starts = self._with_new(start_offsets, ends)
        # A query that stopped during its empty first batch repeats that batch, and its start resolves to a later
        # "latest" now. That is not a loss.
        if options.fails_on_data_loss and not self._begins_at_end(start_offsets):
            for partition, offset in starts.items():
                if partition in ends and ends[partition] < offset:
                    raise loss.shortened(partition, offset, ends[partition])
        ranges = split(ranges_between(starts, ends), options.partitions_min, options.records_per_partition_max)
        return [
            RangePartition(each, self._progress.introduction() if index == 0 else None)
            for index, each in enumerate(ranges)
        ]

    def commit(self, end: dict[str, Any]) -> None:
        self._progress.reached(self._options.broker_address.cluster(), from_json(end))

    # -- a task

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition), "Spark hands back what was planned"
        with sentence_only():
            yield from read_range(partition, self._options, self._schema)

    # -- offsets

    def _available(self, start_offsets: PartitionOffsets) -> PartitionOffsets:
        """The end of each partition, limited to the target if there is one."""
        latest = self._finder().latest(self._find())
        if self._options.fails_on_data_loss:
            for partition, offset in start_offsets.items():
                if partition not in latest:
                    raise loss.deleted(partition, offset)
                if latest[partition] < offset:
                    raise loss.shortened(partition, offset, latest[partition])
        if self._target is None:
            return latest
        return {each: min(offset, self._target[each]) for each, offset in latest.items() if each in self._target}

    def _with_new(self, start_offsets: PartitionOffsets, available: PartitionOffsets) -> PartitionOffsets:
        """Add the partitions created since, from their first record on. If that is not offset 0, records are lost."""
        new = [partition for partition in available if partition not in start_offsets]
        if not new:
            return start_offsets
        first = self._finder().earliest(new)
        if self._options.fails_on_data_loss:
            for partition, offset in first.items():
                if offset > 0:
                    raise loss.removed(partition, 0, offset)
        return start_offsets | first

    def _begins_at_end(self, start_offsets: PartitionOffsets) -> bool:
        """Whether this is the start of a new query that begins at "latest", which may resolve to other offsets now."""
        options = self._options
        return start_offsets == self._initial and (options.starting.has_latest or options.is_latest_for_late_times)

    def _shall_wait(self, waiting: int) -> bool:
        """Whether to postpone the batch because fewer than `minOffsetsPerTrigger` records wait.

        Not beyond `maxTriggerDelay`, and not in a query with `availableNow`, to which no more records come.
        """
        offsets_min = self._options.offsets_per_trigger_min
        if offsets_min is None or self._target is not None or self._last_batch_ms is None or waiting >= offsets_min:
            return False
        return self._clock.monotonic_ms() - self._last_batch_ms < self._options.trigger_delay_max_ms

    def _find(self) -> list[TopicPartition]:
        return self._options.topics.find(self._options.broker_address.cluster(), missing_allowed=True)

    def _finder(self) -> OffsetFinder:
        return OffsetFinder(self._options.broker_address.cluster(), committed_only=self._options.committed_only)


class RefusedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Says why there is no reader, at the first call that Spark makes."""

    def __init__(self, error: HeadwaterError) -> None:
        self._error = error

    @sentence_only()
    def getDefaultReadLimit(self) -> ReadLimit:
        raise self._error

    @sentence_only()
    def initialOffset(self) -> dict[str, Any]:
        raise self._error

    @sentence_only()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002
        raise self._error

    @sentence_only()
    def prepareForTriggerAvailableNow(self) -> None:
        raise self._error

    @sentence_only()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:  # noqa: ARG002
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        raise self._error
