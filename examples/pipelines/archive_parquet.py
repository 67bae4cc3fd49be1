"""A topic archived as Parquet files, by date and hour of its records: everything of each record, exactly once.

After a crash Spark may write its last batch again. In every hour each batch has its own directory, named after the
query and the batch, and a repeated write replaces it. So readers of any kind need no list of the valid files.

    python examples/pipelines/archive_parquet.py --bootstrap localhost:9092 --topic orders --directory archive/orders
"""

from functools import partial

import click
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headwater.spark import session


def write_batch(batch: DataFrame, batch_id: int, *, directory: str) -> None:
    # A query with a new checkpoint counts batches from 0 again. Its id keeps it from replacing this query's files.
    query_id = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    (
        batch.withColumn("date", fn.to_date("timestamp"))
        .withColumn("hour", fn.hour("timestamp"))
        .withColumn("batch", fn.lit(f"{query_id}-{batch_id}"))
        .write.mode("overwrite")
        .option("partitionOverwriteMode", "dynamic")
        .partitionBy("date", "hour", "batch")
        .parquet(directory)
    )


def build(
    spark: SparkSession, bootstrap: str, *, topic: str, directory: str, records_per_batch: int = 1_000_000
) -> DataStreamWriter:
    read = (
        spark.readStream.format("headwater")
        .option("bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", records_per_batch)
        .load()
    )
    return read.writeStream.queryName(f"archive-parquet-{topic}").foreachBatch(
        partial(write_batch, directory=directory)
    )


@click.command(help=__doc__)
@click.option("--bootstrap", default="localhost:9092", show_default=True, help="Where the brokers are.")
@click.option("--topic", default="orders", show_default=True, help="Topic to read.")
@click.option("--directory", default="archive/orders", show_default=True, help="Where the files go.")
@click.option("--records-per-batch", default=1_000_000, show_default=True, help="How large a batch may be.")
@click.option("--checkpoint", default="checkpoints/archive-parquet", show_default=True, help="Where progress is kept.")
@click.option("--once", is_flag=True, help="Stop when everything that is there now is archived.")
def main(bootstrap: str, topic: str, directory: str, records_per_batch: int, checkpoint: str, *, once: bool) -> None:
    spark = session("archive-parquet")
    pipeline = build(spark, bootstrap, topic=topic, directory=directory, records_per_batch=records_per_batch)
    pipeline.option("checkpointLocation", checkpoint)
    # Each batch makes files: a few large ones are better than many small ones.
    pipeline.trigger(availableNow=True) if once else pipeline.trigger(processingTime="1 minute")
    pipeline.start().awaitTermination()


if __name__ == "__main__":
    main()
