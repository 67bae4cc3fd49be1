"""A topic archived as an Iceberg table, by date and hour of its records, exactly once.

Needs no jar: `pip install 'pyiceberg[sql-sqlite]'`. The catalogue is an SQLite file beside the tables. Each batch is
one commit, which also stores the batch's number in the table, so a batch that the table already contains is skipped.

    python examples/pipelines/archive_iceberg.py --bootstrap localhost:9092 --topic orders --warehouse archive/iceberg
"""

from functools import partial
from pathlib import Path
from typing import Any

import click
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headwater.spark import session

NAMESPACE = "topics"


def open_catalog(warehouse: str) -> SqlCatalog:
    root = Path(warehouse).absolute()
    root.mkdir(parents=True, exist_ok=True)
    catalog = SqlCatalog("headwater", uri=f"sqlite:///{root / 'catalog.db'}", warehouse=root.as_uri())
    catalog.create_namespace_if_not_exists(NAMESPACE)
    return catalog


def write_batch(batch: DataFrame, batch_id: int, *, catalog: SqlCatalog, table_name: str) -> None:
    query_id = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    dated = batch.withColumn("date", fn.to_date("timestamp")).withColumn("hour", fn.hour("timestamp"))
    # The whole batch goes through the memory of this process: `records_per_batch` bounds it.
    rows: Any = dated.toArrow()
    identifier = f"{NAMESPACE}.{table_name}"
    if not catalog.table_exists(identifier):
        # One commit creates the table and its partitioning: a crash between two would leave it unpartitioned.
        with (
            catalog.create_table_transaction(identifier, rows.schema) as transaction,
            transaction.update_spec() as spec,
        ):
            spec.add_identity("date").add_identity("hour")
    table = catalog.load_table(identifier)
    last_batch = f"headwater.batch.{query_id}"
    if int(table.properties.get(last_batch, -1)) >= batch_id:
        return
    with table.transaction() as transaction:
        transaction.append(rows)
        transaction.set_properties({last_batch: str(batch_id)})


def build(
    spark: SparkSession, bootstrap: str, *, topic: str, warehouse: str, records_per_batch: int = 200_000
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
    # Iceberg would take a dot in the name for a separator of namespaces.
    table_name = topic.replace(".", "_").replace("-", "_")
    write = partial(write_batch, catalog=open_catalog(warehouse), table_name=table_name)
    return read.writeStream.queryName(f"archive-iceberg-{topic}").foreachBatch(write)


@click.command(help=__doc__)
@click.option("--bootstrap", default="localhost:9092", show_default=True, help="Where the brokers are.")
@click.option("--topic", default="orders", show_default=True, help="Topic to read.")
@click.option("--warehouse", default="archive/iceberg", show_default=True, help="Where catalogue and tables are.")
@click.option("--records-per-batch", default=200_000, show_default=True, help="How large a batch may be.")
@click.option("--checkpoint", default="checkpoints/archive-iceberg", show_default=True, help="Where progress is kept.")
@click.option("--once", is_flag=True, help="Stop when everything that is there now is archived.")
def main(bootstrap: str, topic: str, warehouse: str, records_per_batch: int, checkpoint: str, *, once: bool) -> None:
    spark = session("archive-iceberg")
    pipeline = build(spark, bootstrap, topic=topic, warehouse=warehouse, records_per_batch=records_per_batch)
    pipeline.option("checkpointLocation", checkpoint)
    # Each batch makes files: a few large ones are better than many small ones.
    pipeline.trigger(availableNow=True) if once else pipeline.trigger(processingTime="1 minute")
    pipeline.start().awaitTermination()


if __name__ == "__main__":
    main()
