"""Spark's own Kafka connector and ours, side by side in one session: both are asked in the same words."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self
from uuid import uuid4

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headwater.spark import session
from tests.support.spark.sessions import stop

Connector = Literal["kafka", "headwater"]
CONNECTORS: Sequence[Connector] = ("kafka", "headwater")

# What a row that is written may have, as both sinks document it.
ROWS = "key binary, value binary, partition int, headers array<struct<key: string, value: binary>>"
_QUERY_TIMEOUT_S = 120


class Connectors:
    """Options are those that both know. Headers are always read."""

    def __init__(self, bootstrap_servers: str, archives: Sequence[str], directory: Path) -> None:
        self._options = {"kafka.bootstrap.servers": bootstrap_servers, "includeHeaders": "true"}
        self._directory = directory
        self._archives = archives
        self._spark: SparkSession | None = None

    def __enter__(self) -> Self:
        settings = {"spark.jars": ",".join(self._archives), "spark.local.dir": str(self._directory)}
        self._spark = session("headwater-interop", config=settings)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stop(self.spark)

    @property
    def spark(self) -> SparkSession:
        assert self._spark is not None
        return self._spark

    def checkpoint(self) -> str:
        return str(self._directory / f"checkpoint-{uuid4().hex}")

    def read(self, connector: Connector, options: Mapping[str, str]) -> list[Row]:
        frame = self.spark.read.format(connector).options(**{**self._options, **options}).load()
        return frame.orderBy("topic", "partition", "offset").collect()

    def stream(self, connector: Connector, topic: str, options: Mapping[str, str] | None = None) -> DataFrame:
        chosen = {"subscribe": topic, "startingOffsets": "earliest", **(options or {})}
        return self.spark.readStream.format(connector).options(**{**self._options, **chosen}).load()

    def write(
        self,
        connector: Connector,
        topic: str,
        rows: Sequence[tuple[Any, ...]],
        options: Mapping[str, str] | None = None,
        schema: str = ROWS,
    ) -> None:
        # In one task, which keeps their order.
        frame = self.spark.createDataFrame(list(rows), schema).coalesce(1)
        self.save(connector, frame, {"topic": topic, **(options or {})})

    def save(self, connector: Connector, rows: DataFrame, options: Mapping[str, str] | None = None) -> None:
        rows.write.format(connector).options(**{**self._options, **(options or {})}).save()

    def copy(self, reader: Connector, writer: Connector, source: str, target: str, checkpoint: str) -> None:
        """What there is now, from where the checkpoint says on."""
        rows = self.stream(reader, source).select("key", "value", "partition", "headers")
        sink = rows.writeStream.format(writer).options(**self._options, topic=target, checkpointLocation=checkpoint)
        finish(sink.trigger(availableNow=True).start())

    def collect(self, rows: DataFrame) -> tuple[list[Row], StreamingQuery]:
        """What a stream gives until it has read all that there is now."""
        name = f"collected_{uuid4().hex}"
        query = finish(rows.writeStream.format("memory").queryName(name).trigger(availableNow=True).start())
        return self.spark.table(name).orderBy("topic", "partition", "offset").collect(), query


def finish(query: StreamingQuery) -> StreamingQuery:
    try:
        # Raises what ended the query, if anything did.
        assert query.awaitTermination(_QUERY_TIMEOUT_S), "the query has not ended"
    finally:
        query.stop()
    return query
