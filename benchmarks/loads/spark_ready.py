"""A data source of Spark that has nothing to do: each of its tasks yields the same Arrow batch over and over.

It costs what Spark's way from a Python data source to a row costs, so that the rest is what a real one adds.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

# The columns of Spark's Kafka source.
SCHEMA = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"


class ReadySource(DataSource):
    """Options: `partitions`, `rows` of each, `batchRows`, `valueBytes`."""

    @classmethod
    def name(cls) -> str:
        return "ready"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> "ReadyReader":  # noqa: ARG002 - Spark's interface
        return ReadyReader({name: int(value) for name, value in self.options.items()})


class ReadyReader(DataSourceReader):
    def __init__(self, options: dict[str, int]) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(index) for index in range(self._options["partitions"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        rows, batch_rows = self._options["rows"], self._options["batchrows"]
        batch = _batch(partition.value, min(rows, batch_rows), self._options["valuebytes"])
        while rows > 0:
            yield batch if rows >= batch.num_rows else batch.slice(0, rows)
            rows -= batch.num_rows


def _batch(partition: int, rows: int, value_bytes: int) -> pa.RecordBatch:
    """Made without an object for each row, or the making would be seen in what is measured."""
    constants: dict[str, Any] = {
        "key": pa.scalar(b"00000000", pa.binary()),
        "value": pa.scalar(bytes(value_bytes), pa.binary()),
        "topic": pa.scalar("ready", pa.string()),
        "partition": pa.scalar(partition, pa.int32()),
        "offset": pa.scalar(0, pa.int64()),
        "timestamp": pa.scalar(1_700_000_000_000_000, pa.timestamp("us", tz="UTC")),
        "timestampType": pa.scalar(0, pa.int32()),
    }
    return pa.RecordBatch.from_pydict({name: pa.repeat(constant, rows) for name, constant in constants.items()})
