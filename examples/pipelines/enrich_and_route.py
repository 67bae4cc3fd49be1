"""Adds the country and tier of the customer to each order, and routes the orders to several topics.

Large orders go to one topic, all others to a second. Records that are no orders, or that name an unknown customer, go
to a third topic unchanged, with the reason in a header. One write serves all three: each row names its topic.

    python examples/pipelines/enrich_and_route.py --bootstrap localhost:9092
"""

import click
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headwater.spark import session

ORDER = "order LONG, customer STRING, item STRING, quantity INT, price DECIMAL(9, 2), time TIMESTAMP"
CUSTOMER = "country STRING, tier STRING"
HEADERS = "array<struct<key: string, value: binary>>"


def read_customers(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    """The newest record of each customer. This is a batch read, which Spark repeats for every micro-batch of orders."""
    return (
        spark.read.format("headwater")
        .option("bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("key.format", "string")
        .option("value.format", "json")
        .option("value.schema", CUSTOMER)
        .load()
        .groupBy(fn.col("key").alias("customer"))
        .agg(fn.max_by(fn.struct("value"), "offset").alias("newest"))
        .where("newest.value IS NOT NULL")
        .select("customer", "newest.value.*", fn.lit(True).alias("is_known"))
    )


def build(
    spark: SparkSession,
    bootstrap: str,
    *,
    orders: str = "orders",
    customers: str = "customers",
    large_total: float = 200,
) -> DataStreamWriter:
    read = (
        spark.readStream.format("headwater")
        .option("bootstrap.servers", bootstrap)
        .option("subscribe", orders)
        .option("startingOffsets", "earliest")
        .option("value.format", "json")
        .option("value.schema", ORDER)
        .option("badRecords", "column")
        .load()
    )
    enriched = (
        read.select("key", "value", "badRecord", "value.*")
        .withColumn("total", fn.expr("quantity * price"))
        .join(read_customers(spark, bootstrap, customers), "customer", "left")
        .withColumn(
            "reason",
            fn.when(fn.col("badRecord").isNotNull(), fn.col("badRecord.reason"))
            .when(fn.col("value").isNull(), fn.lit("it has no value"))
            .when(fn.col("is_known").isNull(), fn.concat(fn.lit("unknown customer: "), fn.col("customer"))),
        )
    )
    order = fn.struct("order", "customer", "country", "tier", "item", "quantity", "price", "total", "time")
    routed = enriched.select(
        "key",
        fn.when(fn.col("reason").isNull(), fn.to_json(order).cast("binary"))
        .otherwise(fn.coalesce("badRecord.bytes", fn.to_json("value").cast("binary")))
        .alias("value"),
        fn.when(fn.col("reason").isNotNull(), f"{orders}.dead-letter")
        .when(fn.col("total") >= large_total, f"{orders}.large")
        .otherwise(f"{orders}.standard")
        .alias("topic"),
        fn.when(
            fn.col("reason").isNotNull(),
            fn.array(fn.struct(fn.lit("reason").alias("key"), fn.col("reason").cast("binary").alias("value"))),
        )
        .cast(HEADERS)
        .alias("headers"),
    )
    return routed.writeStream.format("headwater").queryName("enrich-and-route").option("bootstrap.servers", bootstrap)


@click.command(help=__doc__)
@click.option("--bootstrap", default="localhost:9092", show_default=True, help="Where the brokers are.")
@click.option("--orders", default="orders", show_default=True, help="Topic to read; those to write begin with it.")
@click.option("--customers", default="customers", show_default=True, help="Compacted topic with a record per customer.")
@click.option("--large-total", default=200.0, show_default=True, help="From which total on an order is large.")
@click.option("--checkpoint", default="checkpoints/enrich-and-route", show_default=True, help="Where progress is kept.")
@click.option("--once", is_flag=True, help="Stop when everything that is there now is processed.")
def main(bootstrap: str, orders: str, customers: str, large_total: float, checkpoint: str, *, once: bool) -> None:
    spark = session("enrich-and-route")
    pipeline = build(spark, bootstrap, orders=orders, customers=customers, large_total=large_total)
    pipeline.option("checkpointLocation", checkpoint)
    if once:
        pipeline.trigger(availableNow=True)
    pipeline.start().awaitTermination()


if __name__ == "__main__":
    main()
