"""A batch read: what is between two bounds when the query is planned, cut into tasks."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from headwater.spark.options.read_options import ReadOptions, read_options
from headwater.spark.reads import loss
from headwater.spark.reads.columns import check_columns
from headwater.spark.reads.filters import Narrowing, narrow
from headwater.spark.reads.offsets import Finder, Offsets
from headwater.spark.reads.plan import OffsetRange, ranges_between, split
from headwater.spark.reads.range_reader import RangePartition, read_range


def batch_reader(given: Mapping[str, str], schema: StructType) -> DataSourceReader:
    options = read_options(given, is_streaming=False)
    check_columns(schema, given)
    return FilteringReader(options, schema) if options.pushes_filters else HeadwaterReader(options, schema)


class HeadwaterReader(DataSourceReader):
    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._narrowing = Narrowing()

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        ranges = split(self._ranges(), options.partitions_min, options.records_per_partition_max)
        # Spark plans a task even for nothing, and that one must know so.
        return [RangePartition(each) for each in ranges] or [RangePartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition), "Spark hands back what was planned"
        return read_range(partition, self._options, self._schema)

    def _ranges(self) -> list[OffsetRange]:
        options = self._options
        cluster = options.connecting.cluster()
        finder = Finder(cluster, committed_only=options.committed_only)
        partitions = options.topics.find(cluster)
        start = finder.resolve(options.starting, partitions, late_times_allowed=options.is_latest_for_late_times)
        end = finder.resolve(options.ending, partitions)
        wanted = self._narrowing.pick(partitions)
        self._check(finder, start, end)
        ranges = ranges_between({each: start[each] for each in wanted}, {each: end[each] for each in wanted})
        return self._narrowing.cut(ranges, finder.since, timestamps_ordered=options.timestamps_ordered)

    def _check(self, finder: Finder, start: Offsets, end: Offsets) -> None:
        """Offsets that a user names may be out of range: said here, or moved into it, before tasks wait for them."""
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
    """Apart from the other, because Spark refuses any reader with `pushFilters` unless its session allows that."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._narrowing = narrow(filters)
        return filters
