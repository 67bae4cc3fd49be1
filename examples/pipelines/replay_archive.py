"""Writes a Parquet archive (see archive_parquet.py) back into a topic: keys, values, headers and timestamps unchanged.

The records of a partition keep their order. All of them become visible at once, and only once: a second run with the
same application id and version adds nothing.

    python examples/pipelines/replay_archive.py --bootstrap localhost:9092 --directory archive/orders --topic again
"""

import click
from pyspark.sql import DataFrame, SparkSession

from headwater.spark import session


def read_archive(spark: SparkSession, directory: str, *, where: str = "true") -> DataFrame:
    """`where` selects hours without reading the others: "date = '2026-05-01' AND hour BETWEEN 8 AND 11"."""
    return (
        spark.read.parquet(directory)
        .where(where)
        # One task gets all records of a partition of the old topic, in the order of their offsets.
        .select("key", "value", "headers", "timestamp", "partition", "offset")
        .repartition("partition")
        .sortWithinPartitions("partition", "offset")
    )


def replay(
    spark: SparkSession,
    bootstrap: str,
    *,
    directory: str,
    topic: str,
    application_id: str,
    application_version: int,
    where: str = "true",
) -> None:
    # Without the column "partition" the keys choose the partitions, as the new topic may have a different number.
    records = read_archive(spark, directory, where=where).drop("partition", "offset")
    (
        records.write.format("headwater")
        .mode("append")
        .option("bootstrap.servers", bootstrap)
        .option("topic", topic)
        .option("includeTimestamp", "true")
        .option("applicationId", application_id)
        .option("applicationVersion", application_version)
        .save()
    )


@click.command(help=__doc__)
@click.option("--bootstrap", default="localhost:9092", show_default=True, help="Where the brokers are.")
@click.option("--directory", default="archive/orders", show_default=True, help="The archive.")
@click.option("--topic", default="again", show_default=True, help="Topic to write.")
@click.option("--where", default="true", show_default=True, help="What to replay, such as \"date = '2026-05-01'\".")
@click.option(
    "--application-id", default="replay-archive", show_default=True, help="Under which name it is remembered."
)
@click.option("--application-version", default=0, show_default=True, help="Raise it to replay once more.")
def main(bootstrap: str, directory: str, topic: str, where: str, application_id: str, application_version: int) -> None:
    replay(
        session("replay-archive"),
        bootstrap,
        directory=directory,
        topic=topic,
        where=where,
        application_id=application_id,
        application_version=application_version,
    )


if __name__ == "__main__":
    main()
