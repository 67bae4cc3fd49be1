"""Sessions of customers: orders less than a gap apart form one session, in whatever order they arrive.

Written with `transformWithState`: each customer has a state (its open sessions) and timers, which fire when the
watermark passes them. Spark keeps such state in RocksDB only, hence the setting below. RocksDB is part of Spark.

    python examples/pipelines/sessionise.py --bootstrap localhost:9092
"""

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any, NamedTuple

import click
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from headwater.spark import session

ORDER = "order LONG, customer STRING, item STRING, quantity INT, price DECIMAL(9, 2), time TIMESTAMP"
STATE = "started_ms LONG, ended_ms LONG, orders LONG, revenue DECIMAL(20, 2)"
SESSION = f"customer STRING, {STATE}"
SPARK_CONFIG = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}


class Session(NamedTuple):
    """One session of a customer, with the fields of STATE."""

    started_ms: int
    ended_ms: int
    orders: int
    revenue: Decimal


def merged(sessions: Iterable[Session], gap_ms: int) -> list[Session]:
    """Merge sessions that are less than the gap apart."""
    result: list[Session] = []
    for each in sorted(sessions):
        if result and each.started_ms - result[-1].ended_ms < gap_ms:
            last = result.pop()
            ended_ms = max(last.ended_ms, each.ended_ms)
            each = Session(last.started_ms, ended_ms, last.orders + each.orders, last.revenue + each.revenue)
        result.append(each)
    return result


# ruff: noqa: ARG002, N802, N803 - the names are Spark's
class Sessions(StatefulProcessor):
    def __init__(self, gap_ms: int) -> None:
        self._gap_ms = gap_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._open = handle.getListState("open", STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        orders = [Session(row.time_ms, row.time_ms, 1, row.total) for row in rows]
        sessions = merged([*self._sessions(), *orders], self._gap_ms)
        self._open.put(list(sessions))
        for each in sessions:
            self._handle.registerTimer(each.ended_ms + self._gap_ms)
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        """The timer's session may have grown since, so check which sessions are over instead of trusting the timer."""
        watermark_ms = timerValues.getCurrentWatermarkInMs()
        sessions = self._sessions()
        still_open = [each for each in sessions if each.ended_ms + self._gap_ms > watermark_ms]
        if still_open:
            self._open.put(list(still_open))
        else:
            self._open.clear()
        for each in sessions:
            if each not in still_open:
                yield Row(customer=key[0], **each._asdict())

    def _sessions(self) -> list[Session]:
        return [Session(*values) for values in self._open.get()]


def build(
    spark: SparkSession,
    bootstrap: str,
    *,
    orders: str = "orders",
    sessions: str = "sessions",
    gap_ms: int = 30_000,
    lateness: str = "10 seconds",
) -> DataStreamWriter:
    read = (
        spark.readStream.format("headwater")
        .option("bootstrap.servers", bootstrap)
        .option("subscribe", orders)
        .option("startingOffsets", "earliest")
        .option("value.format", "json")
        .option("value.schema", ORDER)
        # Records that are no such documents do not end the query; they go here, with the reason in a header.
        .option("badRecords", f"topic:{orders}.bad")
        .load()
    )
    ended = (
        read.select("value.*")
        .withWatermark("time", lateness)
        .select("customer", "time", fn.expr("unix_millis(time) AS time_ms"), fn.expr("quantity * price AS total"))
        .groupBy("customer")
        .transformWithState(Sessions(gap_ms), SESSION, outputMode="append", timeMode="eventTime")
    )
    rows = ended.select(
        fn.col("customer").alias("key"),
        fn.to_json(
            fn.struct(
                "customer",
                fn.timestamp_millis("started_ms").alias("started"),
                fn.timestamp_millis("ended_ms").alias("ended"),
                "orders",
                "revenue",
            )
        ).alias("value"),
    )
    return (
        rows.writeStream.format("headwater")
        .queryName("sessionise")
        .outputMode("append")
        .option("bootstrap.servers", bootstrap)
        .option("topic", sessions)
    )


@click.command(help=__doc__)
@click.option("--bootstrap", default="localhost:9092", show_default=True, help="Where the brokers are.")
@click.option("--orders", default="orders", show_default=True, help="Topic to read.")
@click.option("--sessions", default="sessions", show_default=True, help="Topic to write.")
@click.option("--gap-ms", default=30_000, show_default=True, help="A silence as long as this ends a session.")
@click.option("--checkpoint", default="checkpoints/sessionise", show_default=True, help="Where progress is kept.")
@click.option("--once", is_flag=True, help="Stop when everything that is there now is processed.")
def main(bootstrap: str, orders: str, sessions: str, gap_ms: int, checkpoint: str, *, once: bool) -> None:
    spark = session("sessionise", config=SPARK_CONFIG)
    pipeline = build(spark, bootstrap, orders=orders, sessions=sessions, gap_ms=gap_ms)
    pipeline.option("checkpointLocation", checkpoint)
    if once:
        pipeline.trigger(availableNow=True)
    pipeline.start().awaitTermination()


if __name__ == "__main__":
    main()
