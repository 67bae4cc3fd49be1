"""Joins two topics: each order with its payment, or without one if none came within the hour.

Both sides wait for each other in Spark's state. The watermarks and the time range in the join limit how long: without
them the state would grow without bound. An unpaid order is written as soon as no payment can be in time any more.

    python examples/pipelines/join_payments.py --bootstrap localhost:9092
"""

import click
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headwater.spark import session

ORDER = "order LONG, customer STRING, item STRING, quantity INT, price DECIMAL(9, 2), time TIMESTAMP"
PAYMENT = "paid_order LONG, method STRING, paid TIMESTAMP"


def read_documents(spark: SparkSession, bootstrap: str, topic: str, schema: str) -> DataFrame:
    return (
        spark.readStream.format("headwater")
        .option("bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("value.format", "json")
        .option("value.schema", schema)
        # Records that are no such documents do not end the query; they go here, with the reason in a header.
        .option("badRecords", f"topic:{topic}.bad")
        .load()
        .select("value.*")
    )


def build(
    spark: SparkSession,
    bootstrap: str,
    *,
    orders: str = "orders",
    payments: str = "payments",
    paid_orders: str = "orders.paid",
    unpaid_orders: str = "orders.unpaid",
) -> DataStreamWriter:
    left = read_documents(spark, bootstrap, orders, ORDER).withWatermark("time", "1 minute")
    right = read_documents(spark, bootstrap, payments, PAYMENT).withWatermark("paid", "1 minute")
    joined = left.join(
        right, fn.expr("order = paid_order AND paid BETWEEN time AND time + INTERVAL 1 HOUR"), "leftOuter"
    )
    rows = joined.select(
        fn.col("customer").alias("key"),
        fn.to_json(
            fn.struct("order", "customer", fn.expr("quantity * price AS total"), "time", "paid", "method")
        ).alias("value"),
        fn.when(fn.col("paid").isNull(), unpaid_orders).otherwise(paid_orders).alias("topic"),
    )
    return (
        rows.writeStream.format("headwater")
        .queryName("join-payments")
        .outputMode("append")
        .option("bootstrap.servers", bootstrap)
    )


@click.command(help=__doc__)
@click.option("--bootstrap", default="localhost:9092", show_default=True, help="Where the brokers are.")
@click.option("--orders", default="orders", show_default=True, help="Topic with orders.")
@click.option("--payments", default="payments", show_default=True, help="Topic with payments.")
@click.option("--paid-orders", default="orders.paid", show_default=True, help="Topic to write.")
@click.option("--unpaid-orders", default="orders.unpaid", show_default=True, help="Another topic to write.")
@click.option("--checkpoint", default="checkpoints/join-payments", show_default=True, help="Where progress is kept.")
@click.option("--once", is_flag=True, help="Stop when everything that is there now is processed.")
def main(
    bootstrap: str, orders: str, payments: str, paid_orders: str, unpaid_orders: str, checkpoint: str, *, once: bool
) -> None:
    spark = session("join-payments")
    pipeline = build(
        spark, bootstrap, orders=orders, payments=payments, paid_orders=paid_orders, unpaid_orders=unpaid_orders
    )
    pipeline.option("checkpointLocation", checkpoint)
    if once:
        pipeline.trigger(availableNow=True)
    pipeline.start().awaitTermination()


if __name__ == "__main__":
    main()
