"""Turns a stream of changes into a table of current rows: the newest value of each key, without the deleted keys.

The topic contains a JSON document for each change and a null value (a tombstone) for a deletion, as change data capture
writes them. The table is a Delta table, which many engines can read: `pip install deltalake`.

    python examples/pipelines/current_rows.py --bootstrap localhost:9092 --topic customers --table tables/customers
"""

from functools import partial

import click
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headwater.spark import session

CUSTOMER = "country STRING, tier STRING"


def write_batch(batch: DataFrame, batch_id: int, *, table: str) -> None:  # noqa: ARG001
    """The merge is idempotent, so a batch that Spark repeats does no harm."""
    # All changes of a key are in one partition, so the highest offset is the last change.
    newest = batch.groupBy("key").agg(fn.max_by(fn.struct("value"), "offset").alias("newest"))
    changes = newest.select("key", fn.col("newest.value").isNull().alias("is_deleted"), "newest.value.*").toArrow()
    rows = DeltaTable.create(table, changes.drop_columns("is_deleted").schema, mode="ignore")
    (
        rows.merge(changes, "row.key = change.key", source_alias="change", target_alias="row")
        .when_matched_delete("change.is_deleted")
        .when_matched_update_all(except_cols=["is_deleted"])
        .when_not_matched_insert_all("NOT change.is_deleted", except_cols=["is_deleted"])
        .execute()
    )


def build(
    spark: SparkSession,
    bootstrap: str,
    *,
    topic: str = "customers",
    schema: str = CUSTOMER,
    table: str,
    changes_per_batch: int = 200_000,
) -> DataStreamWriter:
    read = (
        spark.readStream.format("headwater")
        .option("bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", changes_per_batch)
        .option("key.format", "string")
        .option("value.format", "json")
        .option("value.schema", schema)
        .load()
    )
    return read.writeStream.queryName(f"current-{topic}").foreachBatch(partial(write_batch, table=table))


@click.command(help=__doc__)
@click.option("--bootstrap", default="localhost:9092", show_default=True, help="Where the brokers are.")
@click.option("--topic", default="customers", show_default=True, help="Topic with the changes.")
@click.option("--schema", default=CUSTOMER, show_default=True, help="What a value holds.")
@click.option("--table", default="tables/customers", show_default=True, help="Where the table is.")
@click.option("--checkpoint", default="checkpoints/current-rows", show_default=True, help="Where progress is kept.")
@click.option("--once", is_flag=True, help="Stop when everything that is there now is in the table.")
def main(bootstrap: str, topic: str, schema: str, table: str, checkpoint: str, *, once: bool) -> None:
    pipeline = build(session("current-rows"), bootstrap, topic=topic, schema=schema, table=table)
    pipeline.option("checkpointLocation", checkpoint)
    if once:
        pipeline.trigger(availableNow=True)
    pipeline.start().awaitTermination()


if __name__ == "__main__":
    main()
