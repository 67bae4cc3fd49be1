"""A batch read: the records between two bounds, resolved to offsets when Spark plans the query and cut into tasks."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from headwater.spark.errors import sentence_only
from headwater.spark.options import client_settings
from headwater.spark.options.read_options import ReadOptions, read_options
from headwater.spark.reads import loss
from headwater.spark.reads.columns import check_columns
from headwater.spark.reads.dead_letter_columns import check_letter_topics
from headwater.spark.reads.filters import ReadScope, read_scope
from headwater.spark.reads.offsets import OffsetFinder, PartitionOffsets
from headwater.spark.reads.plan import OffsetRange, ranges_between, split
from headwater.spark.reads.range_reader import RangePartition, read_range

_PUSHDOWN_WORKER: Final = "pyspark.sql.worker.data_source_pushdown_filters"


def batch_reader(given: Mapping[str, str], schema: StructType) -> DataSourceReader:
    options = read_options(given, is_streaming=False)
    client_settings.warn_of_reads(given)
    check_columns(schema, given)
    pushes_filters = _asks_for_filters() if options.pushes_filters is None else options.pushes_filters
    return FilteringReader(options, schema) if pushes_filters else HeadwaterReader(options, schema)


def _asks_for_filters() -> bool:
    """Whether this reader is made for a session with `spark.sql.python.filterPushdown.enabled`.

    Spark tells a source nothing about the session, and refuses a reader that takes filters if the session does not
    allow it. If the session does, another of pyspark's workers makes the reader.
    """
    return _PUSHDOWN_WORKER in sys.modules


class HeadwaterReader(DataSourceReader):
    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._scope = ReadScope()

    @sentence_only()
    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        ranges = split(self._ranges(), options.partitions_min, options.records_per_partition_max)
        # Spark runs at least one task, even if there is nothing to read. That task gets None.
        return [RangePartition(each) for each in ranges] or [RangePartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition), "Spark hands back what was planned"
        with sentence_only():
            yield from read_range(partition, self._options, self._schema)

    def _ranges(self) -> list[OffsetRange]:
        options = self._options
        cluster = options.broker_address.cluster()
        finder = OffsetFinder(cluster, committed_only=options.committed_only)
        partitions = options.topics.find(cluster)
        if options.dead_letters:
            check_letter_topics(cluster, partitions)
        start = finder.resolve(options.starting, partitions, late_times_allowed=options.is_latest_for_late_times)
        end = finder.resolve(options.ending, partitions)
        wanted = self._scope.pick(partitions)
        self._check(finder, start, end)
        ranges = ranges_between({each: start[each] for each in wanted}, {each: end[each] for each in wanted})
        return self._scope.cut(ranges, finder.since, timestamps_ordered=options.timestamps_ordered)

    def _check(self, finder: OffsetFinder, start: PartitionOffsets, end: PartitionOffsets) -> None:
        """Check the offsets that the user named. Offsets out of range are a DataLoss, or are moved into the range if
        losses are allowed.

        Without this check, tasks would wait for records that do not exist.
        """
        options = self._options
        if options.starting.offsets:
            for partition, earliest in finder.earliest(start).items():
                if start[partition] < earliest and options.fails_on_data_loss:
                    raise loss.removed(partition, start[partition], earliest)
                start[partition] = max(start[partition], earliest)
        if options.starting.offsets or options.ending.offsets:
            for partition, latest in finder.latest(end).items():
                furthest = max(start[partition], end[partition])
                if furthest > latest and options.fails_on_data_loss:
                    raise loss.shortened(partition, furthest, latest)
                end[partition] = min(end[partition], latest)


class FilteringReader(HeadwaterReader):
    """A separate class, because Spark refuses a reader that has `pushFilters` unless a session setting allows it."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._scope = read_scope(filters)
        return filters
