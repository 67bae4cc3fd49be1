"""Recipes from topics to tables and back: every record once, even if Spark replays its last batch."""

from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from examples.pipelines import archive_delta, archive_iceberg, archive_parquet, current_rows, replay_archive
from pyspark.sql import SparkSession

from headwater.client.cluster import Cluster
from headwater.testing import Broker
from tests.spark.recipes.recipes import Sent, Topics, at, in_ms, run
from tests.support.spark.checkpoints import batches_done, replay_last_batch


@pytest.fixture
def bootstrap(headwater_broker: Broker) -> str:
    return headwater_broker.bootstrap_servers


@pytest.fixture
def topics(bootstrap: str) -> Generator[Topics]:
    with Cluster(bootstrap) as cluster:
        yield Topics(cluster)


def records(count: int, first: int = 0) -> list[Sent]:
    """Records over three hours, with and without every optional field."""
    return [
        Sent(
            f"key-{number % 5}" if number % 7 else None,
            b"value-%d" % number if number % 6 else None,
            (("trace", b"%d" % number), ("empty", None)) if number % 2 else (),
            in_ms(at(number * 600)),
        )
        for number in range(first, first + count)
    ]


def archived_twice(
    main: Any, bootstrap: str, topics: Topics, topic: str, checkpoint: Path, *place: str | Path
) -> list[Sent]:
    """Archive a topic in several batches, then replay the last one as after a crash, together with newer records."""
    sent, more = records(18), records(3, first=18)
    arguments = ("--topic", topic, *place, "--records-per-batch", "10", "--checkpoint", checkpoint)
    topics.send(topic, sent)
    run(main, bootstrap, *arguments)
    assert batches_done(checkpoint) == 2
    replay_last_batch(checkpoint)
    topics.send(topic, more)
    run(main, bootstrap, *arguments)
    assert batches_done(checkpoint) == 3, "the last batch again, and one with what was new"
    return sent + more


def as_sent(rows: list[dict[str, Any]]) -> Counter[Sent]:
    return Counter(
        Sent(
            None if row["key"] is None else bytes(row["key"]).decode(),
            None if row["value"] is None else bytes(row["value"]),
            tuple((header["key"], header["value"]) for header in row["headers"] or ()),
            in_ms(row["timestamp"]),
        )
        for row in rows
    )


def parquet_rows(spark: SparkSession, directory: Path) -> list[dict[str, Any]]:
    return spark.read.parquet(str(directory)).toArrow().to_pylist()


def test_a_parquet_archive_has_every_record_once_by_date_and_hour(
    spark: SparkSession, bootstrap: str, topics: Topics, topic: str, tmp_path: Path
) -> None:
    archive = tmp_path / "archive"
    sent = archived_twice(
        archive_parquet.main, bootstrap, topics, topic, tmp_path / "checkpoint", "--directory", archive
    )

    assert as_sent(parquet_rows(spark, archive)) == Counter(sent)
    hours = {f"{each.parent.name}/{each.name}" for each in archive.glob("date=*/hour=*")}
    assert hours == {f"date=2026-05-01/hour={hour}" for hour in (12, 13, 14, 15)}

    # A query with a new checkpoint counts its batches from 0. It must not replace existing files.
    arguments = ("--topic", topic, "--directory", archive, "--checkpoint", tmp_path / "another")
    run(archive_parquet.main, bootstrap, *arguments)
    assert as_sent(parquet_rows(spark, archive)) == Counter(sent + sent)


@pytest.mark.usefixtures("spark")
def test_a_delta_archive_has_every_record_once_by_date_and_hour(
    bootstrap: str, topics: Topics, topic: str, tmp_path: Path
) -> None:
    table = tmp_path / "table"
    sent = archived_twice(archive_delta.main, bootstrap, topics, topic, tmp_path / "checkpoint", "--table", table)

    archive = DeltaTable(table)
    assert as_sent(archive.to_pyarrow_table().to_pylist()) == Counter(sent)
    assert archive.metadata().partition_columns == ["date", "hour"]


@pytest.mark.usefixtures("spark")
def test_an_iceberg_archive_has_every_record_once_by_date_and_hour(
    bootstrap: str, topics: Topics, topic: str, tmp_path: Path
) -> None:
    warehouse = tmp_path / "warehouse"
    sent = archived_twice(
        archive_iceberg.main, bootstrap, topics, topic, tmp_path / "checkpoint", "--warehouse", warehouse
    )

    catalog = archive_iceberg.open_catalog(str(warehouse))
    table = catalog.load_table(f"{archive_iceberg.NAMESPACE}.{topic.replace('-', '_')}")
    assert as_sent(table.scan().to_arrow().to_pylist()) == Counter(sent)
    assert [field.name for field in table.spec().fields] == ["date", "hour"]
    catalog.close()


def test_a_replayed_archive_is_the_topic_again_and_only_once(
    spark: SparkSession, bootstrap: str, topics: Topics, topic: str, tmp_path: Path
) -> None:
    archive, again = tmp_path / "archive", f"{topic}.again"
    topics.send(topic, records(18))
    run(archive_parquet.main, bootstrap, "--topic", topic, "--directory", archive, "--checkpoint", tmp_path / "done")
    arguments = ("--directory", archive, "--topic", again, "--application-id", topic)

    run(replay_archive.main, bootstrap, *arguments, once=False)
    run(replay_archive.main, bootstrap, *arguments, once=False)

    def by_key(name: str) -> dict[bytes | None, list[Any]]:
        found: dict[bytes | None, list[Any]] = {}
        for record in sorted(topics.received(name), key=lambda each: (each.partition, each.offset)):
            found.setdefault(record.key, []).append((record.timestamp_ms, record.value, record.headers))
        # Records without a key have no defined order.
        found[None] = sorted(found[None], key=str)
        return found

    assert by_key(again) == by_key(topic)

    # Raising the version replays once more; a condition picks hours.
    arguments = (*arguments, "--application-version", "1", "--where", "date = '2026-05-01' AND hour = 13")
    run(replay_archive.main, bootstrap, *arguments, once=False)
    assert len(topics.received(again)) == 18 + 6


@pytest.mark.usefixtures("spark")
def test_changes_become_a_table_of_current_rows(bootstrap: str, topics: Topics, topic: str, tmp_path: Path) -> None:
    table, checkpoint = tmp_path / "table", tmp_path / "checkpoint"

    def change(customers: dict[str, str | None]) -> None:
        values = {
            name: None if tier is None else b'{"country": "AT", "tier": "%s"}' % tier.encode()
            for name, tier in customers.items()
        }
        topics.send(topic, [Sent(name, value) for name, value in values.items()])
        run(current_rows.main, bootstrap, "--topic", topic, "--table", table, "--checkpoint", checkpoint)

    def tiers() -> dict[str, str]:
        rows = DeltaTable(table).to_pyarrow_table().to_pylist()
        assert len({row["key"] for row in rows}) == len(rows)
        return {row["key"]: row["tier"] for row in rows}

    topics.send(topic, [Sent("ann", b'{"tier": "never seen"}')])
    change({"ann": "basic", "ben": "basic", "cleo": None})
    assert tiers() == {"ann": "basic", "ben": "basic"}

    # Replay the first batch, as after a crash, and then write another one.
    replay_last_batch(checkpoint)
    change({"ann": "gold", "ben": None, "dora": "basic"})
    assert tiers() == {"ann": "gold", "dora": "basic"}
