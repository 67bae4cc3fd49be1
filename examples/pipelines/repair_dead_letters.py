"""Looks after the dead letters of a queue: puts those back that may succeed now, and reminds people of the others.

A record that had all its attempts is put back a few times. One that members rejected, or that has failed for good, is
sent to a topic of reviews, where it appears after a while, the rejected ones first. That topic must heed delays and
priorities:

    headwater topic create orders.reviews --set headwater.delay.enable=true --set headwater.priority.enable=true
    python examples/pipelines/repair_dead_letters.py --bootstrap localhost:9092 --once
"""

from functools import partial

import click
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headwater.spark import session


def read_letters(spark: SparkSession, bootstrap: str, *, source: str) -> DataFrame:
    """The dead letters as a table, for questions such as `.groupBy("groupId", "reason").count()`."""
    return (
        spark.read.format("headwater")
        .option("bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("deadLetters", "true")
        .load()
    )


def repair(batch: DataFrame, batch_id: int, *, bootstrap: str, reviews: str, redrives_max: int, after: str) -> None:
    is_hopeful = fn.expr(f"coalesce(contentCopied and reason = 'exhausted' and redrives < {redrives_max}, false)")
    # What was put back is remembered, letter by letter: a batch that Spark repeats changes nothing.
    (
        batch.where(is_hopeful)
        .write.format("headwater")
        .mode("append")
        .option("bootstrap.servers", bootstrap)
        .option("redrive", "true")
        .save()
    )
    described = fn.to_json(
        fn.struct("topic", "partition", "offset", "originTopic", "groupId", "reason", "message", "redrives")
    )
    (
        batch.where(~is_hopeful & fn.col("originTopic").isNotNull())
        .select(
            "key",
            described.alias("value"),
            (fn.col("givenUp") + fn.expr(f"INTERVAL {after}")).alias("deliver_at"),
            fn.when(fn.col("reason") == "rejected", 0).otherwise(3).alias("priority"),
        )
        .write.format("headwater")
        .mode("append")
        .option("bootstrap.servers", bootstrap)
        .option("topic", reviews)
        .option("includeDirectives", "true")
        .option("applicationId", f"repair-{reviews}")
        .option("applicationVersion", batch_id)
        .save()
    )


def build(
    spark: SparkSession,
    bootstrap: str,
    *,
    source: str = "orders.dlq",
    reviews: str = "orders.reviews",
    redrives_max: int = 3,
    after: str = "1 HOUR",
) -> DataStreamWriter:
    letters = (
        spark.readStream.format("headwater")
        .option("bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("deadLetters", "true")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 10_000)
        .load()
    )
    handle = partial(repair, bootstrap=bootstrap, reviews=reviews, redrives_max=redrives_max, after=after)
    return letters.writeStream.queryName(f"repair-{source}").foreachBatch(handle)


@click.command(help=__doc__)
@click.option("--bootstrap", default="localhost:9092", show_default=True, help="Where the brokers are.")
@click.option("--source", default="orders.dlq", show_default=True, help="Dead-letter topic to read.")
@click.option("--reviews", default="orders.reviews", show_default=True, help="Topic of what people have to look at.")
@click.option("--redrives-max", default=3, show_default=True, help="How often a record is put back.")
@click.option("--after", default="1 HOUR", show_default=True, help="How long a review waits.")
@click.option("--checkpoint", default="checkpoints/repair", show_default=True, help="Where progress is kept.")
@click.option("--once", is_flag=True, help="Stop when everything that is there now is processed.")
def main(
    bootstrap: str, source: str, reviews: str, redrives_max: int, after: str, checkpoint: str, *, once: bool
) -> None:
    spark = session("repair-dead-letters")
    read_letters(spark, bootstrap, source=source).groupBy("groupId", "originTopic", "reason").count().show()
    pipeline = build(spark, bootstrap, source=source, reviews=reviews, redrives_max=redrives_max, after=after)
    pipeline.option("checkpointLocation", checkpoint)
    pipeline.trigger(availableNow=True) if once else pipeline.trigger(processingTime="10 seconds")
    pipeline.start().awaitTermination()


if __name__ == "__main__":
    main()
