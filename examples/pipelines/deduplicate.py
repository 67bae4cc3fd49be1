"""Copies a topic without duplicates: of several records with the same id, only the first to arrive is kept.

Spark remembers an id until the watermark has passed its record by `within`, which bounds the memory. Keys, values and
headers are unchanged. Records without an id are all kept.

    python examples/pipelines/deduplicate.py --bootstrap localhost:9092
"""

import click
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headwater.spark import session


def build(
    spark: SparkSession,
    bootstrap: str,
    *,
    source: str = "orders",
    target: str = "orders.unique",
    id_path: str = "$.order",
    within: str = "10 minutes",
) -> DataStreamWriter:
    read = (
        spark.readStream.format("headwater")
        .option("bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .load()
    )
    unique = (
        read.withColumn("found", fn.get_json_object(fn.col("value").cast("string"), id_path))
        # A record without an id is no duplicate of another one.
        .withColumn("id", fn.coalesce("found", fn.concat_ws("/", "topic", "partition", "offset")))
        .withWatermark("timestamp", within)
        .dropDuplicatesWithinWatermark(["id"])
        .select("key", "value", "headers", "timestamp")
    )
    return (
        unique.writeStream.format("headwater")
        .queryName("deduplicate")
        .outputMode("append")
        .option("bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("includeTimestamp", "true")
    )


@click.command(help=__doc__)
@click.option("--bootstrap", default="localhost:9092", show_default=True, help="Where the brokers are.")
@click.option("--source", default="orders", show_default=True, help="Topic to read.")
@click.option("--target", default="orders.unique", show_default=True, help="Topic to write.")
@click.option("--id-path", default="$.order", show_default=True, help="Where in a value its id is.")
@click.option("--within", default="10 minutes", show_default=True, help="How far apart duplicates may be.")
@click.option("--checkpoint", default="checkpoints/deduplicate", show_default=True, help="Where progress is kept.")
@click.option("--once", is_flag=True, help="Stop when everything that is there now is processed.")
def main(bootstrap: str, source: str, target: str, id_path: str, within: str, checkpoint: str, *, once: bool) -> None:
    spark = session("deduplicate")
    pipeline = build(spark, bootstrap, source=source, target=target, id_path=id_path, within=within)
    pipeline.option("checkpointLocation", checkpoint)
    if once:
        pipeline.trigger(availableNow=True)
    pipeline.start().awaitTermination()


if __name__ == "__main__":
    main()
