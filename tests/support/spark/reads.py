"""Reads as Spark does them, but in this process and without Java: planned, copied as for another process, and read."""

import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from headwater.client.cluster import Cluster
from headwater.client.producer import Producer
from headwater.clock import Clock
from headwater.ids import TopicName, TopicPartition
from headwater.protocol.batches.batch import Codec
from headwater.spark.options.read_options import read_options
from headwater.spark.reads.plan import OffsetRange
from headwater.spark.reads.range_reader import RangePartition
from headwater.spark.reads.stream_reader import HeadwaterStreamReader
from headwater.spark.source import HeadwaterDataSource
from headwater.testing import Broker

Rows = list[dict[str, Any]]


def batch(broker: Broker, given: Mapping[str, str], schema: StructType | None = None) -> DataSourceReader:
    source = HeadwaterDataSource({"bootstrap.servers": broker.bootstrap_servers, **given})
    return source.reader(schema or _schema(source))


def stream(broker: Broker, given: Mapping[str, str], clock: Clock | None = None) -> HeadwaterStreamReader:
    options = {"bootstrap.servers": broker.bootstrap_servers, **given}
    schema = _schema(HeadwaterDataSource(options))
    return HeadwaterStreamReader(read_options(options, is_streaming=True), schema, clock)


def rows(reader: DataSourceReader | HeadwaterStreamReader, planned: Sequence[InputPartition]) -> Rows:
    found: Rows = []
    for partition in planned:
        # A task gets copies of both.
        copy: Any = pickle.loads(pickle.dumps(reader))
        batches: list[pa.RecordBatch] = list(copy.read(pickle.loads(pickle.dumps(partition))))
        for each in batches:
            each.validate(full=True)
            found += each.to_pylist()
    return found


def read(broker: Broker, given: Mapping[str, str], schema: StructType | None = None) -> Rows:
    reader = batch(broker, given, schema)
    return rows(reader, reader.partitions())


def values(found: Rows) -> list[bytes]:
    """In the order of the offsets of each partition."""
    return [row["value"] for row in sorted(found, key=lambda row: (row["topic"], row["partition"], row["offset"]))]


def ranges(planned: Sequence[InputPartition]) -> list[OffsetRange]:
    found: list[OffsetRange] = []
    for partition in planned:
        assert isinstance(partition, RangePartition)
        if partition.offsets is not None:
            found.append(partition.offsets)
    return found


def one(topic: str, partition: int = 0) -> TopicPartition:
    return TopicPartition(TopicName(topic), partition)


class Query:
    """A streaming query: `reached` is what its checkpoint says, and all that a restarted one goes on from."""

    def __init__(self, reader: HeadwaterStreamReader, reached: dict[str, Any] | None = None) -> None:
        self.reader = reader
        self.reached = reached

    def plan(self) -> tuple[dict[str, Any], Sequence[InputPartition]]:
        start = self.reached if self.reached is not None else self.reader.initialOffset()
        end = self.reader.latestOffset(start, self.reader.getDefaultReadLimit())
        return end, self.reader.partitions(start, end)

    def next(self) -> list[bytes]:
        """The values of the next batch."""
        end, planned = self.plan()
        found = values(rows(self.reader, planned))
        self.reached = end
        return found


def produce(
    cluster: Cluster,
    topic: str,
    values: Sequence[bytes | None],
    *,
    partition: int | None = 0,
    times_ms: Sequence[int] | None = None,
    keys: Sequence[bytes] | None = None,
    codec: Codec = Codec.NONE,
    batch_records_max: int = 10_000,
) -> None:
    with Producer(cluster, codec=codec, batch_records_max=batch_records_max) as producer:
        for index, value in enumerate(values):
            producer.send(
                topic,
                value,
                key=None if keys is None else keys[index],
                partition=partition,
                timestamp_ms=None if times_ms is None else times_ms[index],
            )


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def _schema(source: HeadwaterDataSource) -> StructType:
    schema = source.schema()
    assert isinstance(schema, StructType)
    return schema
