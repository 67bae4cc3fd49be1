"""`CREATE TABLE … USING headwater OPTIONS (…)`: a topic as a table of Spark's catalogue."""

from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql.types import BinaryType, StructField, StructType

from headwater.client.cluster import Cluster
from headwater.errors import ConfigError
from headwater.spark import tables
from headwater.testing import Broker
from tests.spark.recipes.recipes import Topics
from tests.support.spark.reads import produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def name(spark: "SparkSession") -> Iterator[str]:
    name = f"table_{uuid4().hex[:12]}"
    yield name
    for each in (name, f"{name}_copy"):
        spark.sql(f"DROP TABLE IF EXISTS {each}")


def create(spark: "SparkSession", name: str, broker: Broker, **options: str) -> None:
    given = {"bootstrap.servers": broker.bootstrap_servers, **options}
    listed = ", ".join(f"`{option}` '{value}'" for option, value in given.items())
    spark.sql(f"CREATE TABLE {name} USING headwater OPTIONS ({listed})")


def test_a_table_is_read_with_the_options_that_it_was_created_with(
    spark: "SparkSession", headwater_broker: Broker, cluster: Cluster, topic: str, name: str
) -> None:
    produce(cluster, topic, [b'{"id": 1}', b'{"id": 2}', b"nonsense"])
    schema = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
    typed = {"value.format": "json", "value.schema": schema, "badRecords": "column", "includeHeaders": "true"}
    create(spark, name, headwater_broker, subscribe=topic, **typed)

    rows = spark.sql(f"SELECT value.id, badRecord IS NULL AS good, headers FROM {name} ORDER BY offset").collect()

    assert [(row.id, row.good) for row in rows] == [(1, True), (2, True), (None, False)]
    assert spark.sql(f"SELECT * FROM {name} WITH (endingTimestamp = '1') ").collect() == []
    stream = spark.readStream.option("startingOffsets", "earliest").table(name).writeStream.format("memory")
    query = stream.queryName(f"{name}_stream").trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert spark.table(f"{name}_stream").count() == 3


def test_rows_are_inserted_where_the_statement_says_and_never_where_they_come_from(
    spark: "SparkSession", headwater_broker: Broker, cluster: Cluster, topic: str, name: str
) -> None:
    produce(cluster, topic, [b"v"])
    for each in (name, f"{name}_copy"):
        create(spark, each, headwater_broker, subscribe=topic)

    # Spark gives these rows the metadata of the table that they are read from.
    with pytest.raises(AnalysisException, match="insert into a temporary view, or say INSERT INTO t WITH"):
        spark.sql(f"INSERT INTO {name}_copy SELECT * FROM {name}")
    where = f"`bootstrap.servers` = '{headwater_broker.bootstrap_servers}', topic = '{topic}.copy'"
    spark.sql(f"INSERT INTO {name}_copy WITH ({where}) SELECT * FROM {name}")
    spark.sql(f"INSERT INTO {name} WITH ({where}) (value) VALUES (X'77')")

    assert sorted(record.value or b"" for record in Topics(cluster).received(f"{topic}.copy")) == [b"v", b"w"]
    assert len(Topics(cluster).received(topic)) == 1


def test_a_view_of_a_topic_takes_rows(
    spark: "SparkSession", headwater_broker: Broker, cluster: Cluster, topic: str, name: str
) -> None:
    options = f"`bootstrap.servers` '{headwater_broker.bootstrap_servers}', topic '{topic}'"
    spark.sql(f"CREATE TEMPORARY VIEW {name}_view USING headwater OPTIONS ({options})")

    spark.sql(f"INSERT INTO {name}_view (key, value) VALUES (X'6B', X'76')")

    assert [(record.key, record.value) for record in Topics(cluster).received(topic)] == [(b"k", b"v")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "a", "startingOfsets": "earliest"}, "did you mean 'startingOffsets'"),
        ({}, "exactly one of the options"),
        ({"subscribe": "a", "kafka.sasl.jaas.config": "x password=y"}, "would be kept in the table's schema"),
        ({"subscribe": "a", "value.format": "json", "value.schema": "id BIGINT"}, "is JSON, not DDL"),
    ],
)
def test_a_table_that_could_not_be_used_is_refused_when_it_is_created(options: dict[str, str], message: str) -> None:
    properties = {"provider": "headwater", "owner": "me", "subscribe": "a", "option.bootstrap.servers": "localhost:1"}
    created = tables.created({**properties, **{f"option.{option}": value for option, value in options.items()}})
    assert created == {"bootstrap.servers": "localhost:1", **options}

    with pytest.raises(ConfigError, match=message):
        tables.schema(created or {})


def test_a_table_whose_columns_were_given_says_why_it_has_no_options(
    spark: "SparkSession", headwater_broker: Broker, name: str
) -> None:
    spark.sql(f"CREATE TABLE {name} (value BINARY) USING headwater OPTIONS (subscribe 'a')")

    with pytest.raises(AnalysisException, match="CREATE TABLE names no columns"):
        spark.table(name).collect()


def test_options_of_a_statement_take_precedence() -> None:
    metadata = {"headwater.options": {"bootstrap.servers": "a:1", "subscribe": "t", "startingOffsets": "earliest"}}
    schema = StructType([StructField("key", BinaryType(), metadata=metadata)])

    assert tables.read_options({"startingoffsets": "latest"}, schema) == {
        "bootstrap.servers": "a:1",
        "subscribe": "t",
        "startingoffsets": "latest",
    }
    assert tables.read_options({"KAFKA.BOOTSTRAP.SERVERS": "b:1"}, schema) == {"KAFKA.BOOTSTRAP.SERVERS": "b:1"}
