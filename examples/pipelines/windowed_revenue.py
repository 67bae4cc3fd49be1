"""Revenue of each item in each minute. Each window is written once, when it can no longer change.

Orders may be late: they count until the watermark, which follows the latest order, has passed the end of their window.
Later orders are dropped.

    python examples/pipelines/windowed_revenue.py --bootstrap localhost:9092
"""

import click
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headwater.spark import session

ORDER = "order LONG, customer STRING, item STRING, quantity INT, price DECIMAL(9, 2), time TIMESTAMP"


def build(
    spark: SparkSession,
    bootstrap: str,
    *,
    orders: str = "orders",
    revenue: str = "revenue",
    window: str = "1 minute",
    lateness: str = "30 seconds",
    orders_per_batch: int = 1_000_000,
) -> DataStreamWriter:
    read = (
        spark.readStream.format("headwater")
        .option("bootstrap.servers", bootstrap)
        .option("subscribe", orders)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", orders_per_batch)
        .option("value.format", "json")
        .option("value.schema", ORDER)
        # Records that are no such documents do not end the query; they go here, with the reason in a header.
        .option("badRecords", f"topic:{orders}.bad")
        .load()
    )
    windows = (
        read.select("value.*")
        .withWatermark("time", lateness)
        .groupBy(fn.window("time", window), "item")
        .agg(fn.count("*").alias("orders"), fn.sum(fn.expr("quantity * price")).alias("revenue"))
    )
    rows = windows.select(
        fn.col("item").alias("key"),
        fn.to_json(fn.struct("item", "window.start", "window.end", "orders", "revenue")).alias("value"),
    )
    return (
        rows.writeStream.format("headwater")
        .queryName("windowed-revenue")
        .outputMode("append")
        .option("bootstrap.servers", bootstrap)
        .option("topic", revenue)
    )


@click.command(help=__doc__)
@click.option("--bootstrap", default="localhost:9092", show_default=True, help="Where the brokers are.")
@click.option("--orders", default="orders", show_default=True, help="Topic to read.")
@click.option("--revenue", default="revenue", show_default=True, help="Topic to write.")
@click.option("--window", default="1 minute", show_default=True, help="Length of a window.")
@click.option("--lateness", default="30 seconds", show_default=True, help="How late an order may come.")
@click.option("--orders-per-batch", default=1_000_000, show_default=True, help="How large a batch may be.")
@click.option("--checkpoint", default="checkpoints/windowed-revenue", show_default=True, help="Where progress is kept.")
@click.option("--once", is_flag=True, help="Stop when everything that is there now is processed.")
def main(
    bootstrap: str,
    orders: str,
    revenue: str,
    window: str,
    lateness: str,
    orders_per_batch: int,
    checkpoint: str,
    *,
    once: bool,
) -> None:
    pipeline = build(
        session("windowed-revenue"),
        bootstrap,
        orders=orders,
        revenue=revenue,
        window=window,
        lateness=lateness,
        orders_per_batch=orders_per_batch,
    )
    pipeline.option("checkpointLocation", checkpoint)
    if once:
        pipeline.trigger(availableNow=True)
    pipeline.start().awaitTermination()


if __name__ == "__main__":
    main()
