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
    columns: dict[str, Any] = {
        "key": pa.array([b"%08d" % number for number in range(rows)], pa.binary()),
        "value": pa.array([bytes(value_bytes)] * rows, pa.binary()),
        "topic": pa.array(["ready"] * rows, pa.string()),
        "partition": pa.array([partition] * rows, pa.int32()),
        "offset": pa.array(range(rows), pa.int64()),
        "timestamp": pa.array([1_700_000_000_000_000] * rows, pa.timestamp("us", tz="UTC")),
        "timestampType": pa.array([0] * rows, pa.int32()),
    }
    return pa.RecordBatch.from_pydict(columns)
