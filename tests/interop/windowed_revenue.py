"""The job that a cluster runs: revenue per minute and product, from one topic to another, exactly once.

Arguments: bootstrap servers, source, target, checkpoint, and how many orders are in a micro-batch at most.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, count, from_json, struct, sum, to_json, window  # noqa: A004 - Spark's name

_ORDER = "product string, cents long, ordered_at timestamp"


def main(bootstrap_servers: str, source: str, target: str, checkpoint: str, batch_orders: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    records = (
        spark.readStream.format("headwater")
        .option("bootstrap.servers", bootstrap_servers)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", batch_orders)
        .load()
    )
    orders = records.select(from_json(col("value").cast("string"), _ORDER).alias("order")).select("order.*")
    revenue = (
        orders.withWatermark("ordered_at", "10 seconds")
        .groupBy(window("ordered_at", "1 minute"), "product")
        .agg(count("*").alias("orders"), sum("cents").alias("cents"))
    )
    row = struct(col("window.start").cast("long").alias("minute"), "product", "orders", "cents")
    query = (
        revenue.select(col("product").alias("key"), to_json(row).alias("value"))
        .writeStream.format("headwater")
        .outputMode("append")
        .option("bootstrap.servers", bootstrap_servers)
        .option("topic", target)
        .option("delivery", "exactly-once")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
