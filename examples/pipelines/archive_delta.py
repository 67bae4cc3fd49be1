"""A topic archived as a Delta table, by date and hour of its records, exactly once. No jar: `pip install deltalake`.

Each batch is one commit of the table. The commit names its query and batch (Delta's application transactions), so a
batch that the table already contains is skipped.

    python examples/pipelines/archive_delta.py --bootstrap localhost:9092 --topic orders --table archive/orders.delta
"""

from functools import partial

import click
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headwater.spark import session


def write_batch(batch: DataFrame, batch_id: int, *, table: str) -> None:
    query_id = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    assert query_id is not None, "a batch belongs to a query"
    if DeltaTable.is_deltatable(table):
        written = DeltaTable(table).transaction_version(query_id)
        if written is not None and written >= batch_id:
            return
    dated = batch.withColumn("date", fn.to_date("timestamp")).withColumn("hour", fn.hour("timestamp"))
    write_deltalake(
        table,
        # The whole batch goes through the memory of this process: `records_per_batch` bounds it.
        dated.toArrow(),
        mode="append",
        partition_by=["date", "hour"],
        commit_properties=CommitProperties(app_transactions=[Transaction(query_id, batch_id)]),
    )


def build(
    spark: SparkSession, bootstrap: str, *, topic: str, table: str, records_per_batch: int = 200_000
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
    return read.writeStream.queryName(f"archive-delta-{topic}").foreachBatch(partial(write_batch, table=table))


@click.command(help=__doc__)
@click.option("--bootstrap", default="localhost:9092", show_default=True, help="Where the brokers are.")
@click.option("--topic", default="orders", show_default=True, help="Topic to read.")
@click.option("--table", default="archive/orders.delta", show_default=True, help="Where the table is.")
@click.option("--records-per-batch", default=200_000, show_default=True, help="How large a batch may be.")
@click.option("--checkpoint", default="checkpoints/archive-delta", show_default=True, help="Where progress is kept.")
@click.option("--once", is_flag=True, help="Stop when everything that is there now is archived.")
def main(bootstrap: str, topic: str, table: str, records_per_batch: int, checkpoint: str, *, once: bool) -> None:
    spark = session("archive-delta")
    pipeline = build(spark, bootstrap, topic=topic, table=table, records_per_batch=records_per_batch)
    pipeline.option("checkpointLocation", checkpoint)
    # Each batch makes files: a few large ones are better than many small ones.
    pipeline.trigger(availableNow=True) if once else pipeline.trigger(processingTime="1 minute")
    pipeline.start().awaitTermination()


if __name__ == "__main__":
    main()
