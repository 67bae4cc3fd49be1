"""Encodes Arrow rows as record batches for partitions, and chooses the partitions as Kafka's Java client would.

Law: no Python object is created per row.
"""

import secrets
from collections.abc import Iterable, Iterator
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from headwater.client.cluster import Cluster
from headwater.client.delivery import EncodedBatch
from headwater.ids import TopicName, TopicPartition
from headwater.protocol.batches.rows import RowEncoder, group_rows
from headwater.spark.arrow import Array, columns_of, int32_array, int32_buffer
from headwater.spark.options.write_options import WriteOptions
from headwater.spark.writes.contract import written_columns
from headwater.spark.writes.directive_columns import DirectiveColumns
from headwater.spark.writes.row_refused import RowRefused

# Far below a broker's default for max.message.bytes, and large enough to make the cost per batch negligible.
_BATCH_BYTES_MAX = 512 * 1024
# Rows are gathered up to this size before they are distributed, so that even many partitions get large batches.
_GATHERED_BYTES_MAX = 4 * 1024 * 1024


class TopicRowEncoder:
    def __init__(self, cluster: Cluster, options: WriteOptions) -> None:
        self._cluster = cluster
        self._options = options
        self._columns = written_columns(options)
        self._directives = DirectiveColumns(cluster) if options.includes_directives else None
        # Sticky partitioning: all keyless rows of one gathered batch go to this partition (modulo the topic's count),
        # those of the next to the next partition. That makes fewer and larger batches.
        self._keyless_partition = secrets.randbelow(1 << 16)

    def encode(self, batches: Iterable[pa.RecordBatch]) -> Iterator[EncodedBatch]:
        if self._options.schemas:
            # Late import: most writes have bytes already.
            from headwater.spark.writes.registry_values import serialized

            batches = (serialized(each, self._options.schemas) for each in batches)
        for rows in _gathered(batches):
            yield from self._encode(rows)

    def _encode(self, rows: pa.RecordBatch) -> Iterator[EncodedBatch]:
        written: Any = rows.select([name for name in rows.schema.names if name in self._columns])
        _check_times(written)
        _check_headers(written)
        if self._directives is not None:
            written = self._directives.add_headers(written, rows)
        encoder = RowEncoder(columns_of(written))
        now_ms = self._cluster.clock.now_ms()
        for topic, selection in self._by_topic(rows):
            if self._directives is not None:
                self._directives.check_topic(topic, rows, selection)
            wanted = _wanted(rows, selection)
            count = self._partition_count(topic, wanted)
            partitions: Any = encoder.partition_rows(
                count, keyless=self._keyless_partition % count, selection=selection
            )
            if wanted is not None:
                partitions = int32_buffer(pc.coalesce(wanted, int32_array(partitions)))
            order, groups = group_rows(partitions, count, selection)
            for partition, start, stop in groups:
                while start < stop:
                    part = encoder.encode_rows(
                        now_ms, bytes_max=_BATCH_BYTES_MAX, selection=order, start=start, stop=stop
                    )
                    yield EncodedBatch(
                        TopicPartition(topic, partition),
                        part.batch,
                        part.row_count,
                        part.base_timestamp,
                        part.max_timestamp,
                    )
                    start += part.row_count
        self._keyless_partition += 1

    def _partition_count(self, topic: TopicName, wanted: Array | None) -> int:
        # A dead letter does not bring back a topic that was deleted.
        count = len(self._cluster.topic(topic, create=not self._options.redrives).partitions)
        if wanted is None:
            return count
        limits: Any = pc.min_max(wanted)
        lowest, highest = limits["min"].as_py(), limits["max"].as_py()
        if highest >= count:
            # The partition may be newer than the cached metadata of the topic.
            self._cluster.forget([topic])
            count = len(self._cluster.topic(topic).partitions)
        if lowest < 0 or highest >= count:
            bad = lowest if lowest < 0 else highest
            raise RowRefused(f"a row is for partition {bad} of {topic!r}, which has partitions 0 to {count - 1}")
        return count

    def _by_topic(self, rows: pa.RecordBatch) -> Iterator[tuple[TopicName, Any]]:
        """Each topic with the numbers of its rows, or None for all rows. The option `topic` takes precedence over the
        column, as in Spark's Kafka sink."""
        if self._options.topic is not None:
            yield self._options.topic, None
            return
        topics = _column(rows, "topic")
        if topics.null_count:
            raise RowRefused("a row has no topic: its column 'topic' is null, and the option 'topic' is not set")
        coded = topics.dictionary_encode()
        names = [TopicName(name) for name in coded.dictionary.to_pylist()]
        if len(names) == 1:
            yield names[0], None
            return
        order, groups = group_rows(int32_buffer(coded.indices), len(names))
        for index, start, stop in groups:
            yield names[index], memoryview(order)[4 * start : 4 * stop]


def _wanted(rows: pa.RecordBatch, selection: Any) -> Array | None:
    """The partitions that rows choose themselves, which take precedence over keys. None if no row chooses one."""
    if "partition" not in rows.schema.names:
        return None
    wanted = _column(rows, "partition")
    if selection is not None:
        wanted = wanted.take(int32_array(selection))
    return None if wanted.null_count == len(wanted) else wanted


def _check_times(rows: pa.RecordBatch) -> None:
    if "timestamp" not in rows.schema.names:
        return
    limits: Any = pc.min_max(_column(rows, "timestamp"))
    earliest = limits["min"].cast(pa.timestamp("us", "UTC"))
    if earliest.is_valid and earliest.value < 0:
        raise RowRefused(f"a row has the timestamp {earliest}, and no record can be from before 1970")


def _check_headers(rows: pa.RecordBatch) -> None:
    if "headers" not in rows.schema.names:
        return
    lists = _column(rows, "headers")
    # Null types, which Arrow gives to columns without any value. Spark does not send them.
    if pa.types.is_null(lists.type) or pa.types.is_null(lists.type.value_type):
        return
    # Not `lists.values`, which would include the headers of rows outside this slice.
    headers = lists.flatten()
    if headers.null_count:
        raise RowRefused("a row has a header that is null: leave it out of the array, or give it a key")
    if headers.field("key").null_count:
        raise RowRefused("a row has a header whose key is null: a header may lack a value, but not a key")


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    waiting: list[pa.RecordBatch] = []
    byte_count = 0
    for each in batches:
        if not each.num_rows:
            continue
        waiting.append(each)
        byte_count += each.nbytes
        if byte_count >= _GATHERED_BYTES_MAX:
            yield from _joined(waiting)
            waiting, byte_count = [], 0
    if waiting:
        yield from _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """A single batch, unless one of its columns would exceed Arrow's size limit."""
    return batches if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()


def _column(rows: pa.RecordBatch, name: str) -> Array:
    return cast("Array", rows.column(name))
