"""A task's part of a read: one range of offsets, from fetched bytes to Arrow record batches.

Law: no Python object is created per record.
"""

from collections.abc import Iterator
from itertools import takewhile

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from headwater.client.cluster import Cluster
from headwater.client.consumer import DECOMPRESSED_BYTES_MAX, Consumer, FetchedBatch
from headwater.client.errors import ClientError, OffsetOutOfRange, UnknownTopic
from headwater.errors import CorruptBatch
from headwater.ids import GroupId
from headwater.protocol.batches import batch
from headwater.protocol.batches.columns import ColumnBuilder
from headwater.spark.arrow import record_batch
from headwater.spark.options.read_options import ReadOptions
from headwater.spark.reads import loss
from headwater.spark.reads.columns import HEADERS_TYPE
from headwater.spark.reads.dead_letter_columns import DeadLetterRows
from headwater.spark.reads.plan import OffsetRange
from headwater.spark.reads.progress import introduce
from headwater.spark.reads.typed_rows import TypedRows

# Large enough to make the cost per Arrow batch negligible, small enough that the rows are still in the processor's
# cache when they are sent to Java.
_ROWS_MAX = 32_768
_BYTES_MAX = 2 * 1024 * 1024
_BUILT = frozenset({"key", "value", "offset", "timestamp", "headers"})

# The builder of this worker's last task, by its columns. Its buffers are reused, because fresh memory costs as much as
# filling it. A task removes the builder while it uses it.
_builders: dict[frozenset[str], ColumnBuilder] = {}


class RangePartition(InputPartition):
    """`offsets` is None for the single task of an empty read. `introduction` is the group in which the task must leave
    the query's name (see progress.py)."""

    def __init__(self, offsets: OffsetRange | None, introduction: GroupId | None = None) -> None:
        super().__init__(offsets)
        self.offsets = offsets
        self.introduction = introduction


def read_range(partition: RangePartition, options: ReadOptions, schema: StructType) -> Iterator[pa.RecordBatch]:
    if partition.offsets is None:
        return
    cluster = options.broker_address.cluster()
    if partition.introduction is not None:
        introduce(cluster, partition.introduction, partition.offsets.partition, options.group_id_prefix)
    if options.dead_letters:
        letters = DeadLetterRows(schema, HEADERS_TYPE, partition.offsets.partition, options.broker_address)
        yield from map(letters.converted, _read_typed(cluster, partition.offsets, options, letters.inner_schema))
    else:
        yield from _read_typed(cluster, partition.offsets, options, schema)


def _read_typed(
    cluster: Cluster, offsets: OffsetRange, options: ReadOptions, schema: StructType
) -> Iterator[pa.RecordBatch]:
    typed_rows = TypedRows(options.formats, schema, offsets.partition, options.broker_address)
    rows = _Rows(offsets, typed_rows.raw_schema)
    for fetched in _fetch(cluster, offsets, options):
        yield from map(typed_rows.typed, rows.take_in(fetched))
    yield from map(typed_rows.typed, rows.rest())
    rows.leave_builder()


class _Rows:
    """Gathers the records of many batches until they are worth a record batch of Arrow."""

    def __init__(self, wanted: OffsetRange, schema: pa.Schema) -> None:
        self._end = wanted.end
        self._schema = schema
        self._topic, self._partition = wanted.partition
        self._is_append_time = False
        self._built = _BUILT & frozenset(schema.names)
        self._builder = _builders.pop(self._built, None) or ColumnBuilder(**dict.fromkeys(self._built, True))

    def take_in(self, fetched: FetchedBatch) -> Iterator[pa.RecordBatch]:
        header = fetched.header
        # All rows of an Arrow batch share one timestamp type.
        if header.is_log_append_time != self._is_append_time:
            yield from self.rest()
            self._is_append_time = header.is_log_append_time
        try:
            self._builder.append(
                batch.payload(fetched.data, header, DECOMPRESSED_BYTES_MAX),
                header.record_count,
                header.base_offset,
                header.base_timestamp,
                header.max_timestamp if header.is_log_append_time else None,
                fetched.first_offset,
                self._end,
            )
        except CorruptBatch as error:
            raise ClientError(f"{fetched.partition}, batch at offset {header.base_offset}: {error}") from error
        if self._builder.row_count >= _ROWS_MAX or self._builder.byte_count >= _BYTES_MAX:
            yield from self.rest()

    def rest(self) -> Iterator[pa.RecordBatch]:
        if self._builder.row_count:
            constants = {
                "topic": self._topic,
                "partition": self._partition,
                "timestampType": int(self._is_append_time),
            }
            yield record_batch(self._builder.take(), self._schema, constants)

    def leave_builder(self) -> None:
        """Leave the builder, which is empty now, to the worker's next task."""
        _builders.clear()
        _builders[self._built] = self._builder


def _fetch(cluster: Cluster, wanted: OffsetRange, options: ReadOptions) -> Iterator[FetchedBatch]:
    consumer = Consumer(cluster, {wanted.partition: wanted.start}, committed_only=options.committed_only)
    try:
        yield from _follow(consumer, cluster, wanted, options)
    except UnknownTopic as error:
        if options.fails_on_data_loss:
            raise loss.deleted(wanted.partition, consumer.positions[wanted.partition]) from error


def _follow(consumer: Consumer, cluster: Cluster, wanted: OffsetRange, options: ReadOptions) -> Iterator[FetchedBatch]:
    """The batches of a range. The next fetch is in flight while the caller processes the last answer."""
    partition = wanted.partition
    progressed_ms = cluster.clock.monotonic_ms()
    while (position := consumer.positions[partition]) < wanted.end:
        try:
            batches = consumer.fetch_batches()
        except OffsetOutOfRange as error:
            consumer.positions[partition] = _go_on(error, wanted, options)
            continue
        if consumer.positions[partition] > position:
            progressed_ms = cluster.clock.monotonic_ms()
            if consumer.positions[partition] < wanted.end:
                consumer.send_fetches()
            # The broker fills an answer up to its size limit, so it may extend beyond the range.
            yield from takewhile(lambda fetched: fetched.header.base_offset < wanted.end, batches)
        elif cluster.clock.monotonic_ms() - progressed_ms > cluster.timeout_ms:
            # The records existed when the read was planned, and have not reappeared in time.
            if options.fails_on_data_loss:
                raise loss.shortened(partition, wanted.end, consumer.end_offsets.get(partition, position))
            return


def _go_on(error: OffsetOutOfRange, wanted: OffsetRange, options: ReadOptions) -> int:
    """The offset at which to continue after a loss, if the user allows losses."""
    if error.offset < error.earliest:
        if options.fails_on_data_loss:
            raise loss.removed(error.partition, error.offset, error.earliest) from error
        return error.earliest
    if options.fails_on_data_loss:
        raise loss.shortened(error.partition, error.offset, error.latest) from error
    return wanted.end
