"""Columns are those of Spark's Kafka source, and a user's schema picks some of them."""

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headwater.client.cluster import Cluster
from headwater.errors import ConfigError
from headwater.spark.source import HeadwaterDataSource
from headwater.testing import Broker
from tests.support.spark.reads import batch, produce, read

MINIMAL = {"bootstrap.servers": "localhost:9092", "subscribe": "orders"}
HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
# As in the guide to Spark's Kafka integration.
KAFKA_COLUMNS: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
}


def schema_of(columns: dict[str, DataType]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def test_columns_are_those_of_sparks_kafka_source() -> None:
    assert HeadwaterDataSource(MINIMAL).schema() == schema_of(KAFKA_COLUMNS)


def test_headers_come_last_and_only_if_asked_for() -> None:
    source = HeadwaterDataSource({**MINIMAL, "includeHeaders": "true"})
    assert source.schema() == schema_of({**KAFKA_COLUMNS, "headers": HEADERS})


def test_the_source_has_a_name() -> None:
    assert HeadwaterDataSource.name() == "headwater"


def test_a_schema_picks_columns_in_its_own_order(headwater_broker: Broker, cluster: Cluster, topic: str) -> None:
    produce(cluster, topic, [b"x"])
    picked = schema_of({"offset": LongType(), "topic": StringType(), "value": BinaryType()})

    [row] = read(headwater_broker, {"subscribe": topic}, picked)

    assert list(row.items()) == [("offset", 0), ("topic", topic), ("value", b"x")]


def test_an_empty_schema_still_counts_rows(headwater_broker: Broker, cluster: Cluster, topic: str) -> None:
    produce(cluster, topic, [b"x", b"y"])
    picked = schema_of({"partition": IntegerType()})
    assert read(headwater_broker, {"subscribe": topic}, picked) == [{"partition": 0}] * 2


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"val": BinaryType()}, "there is no column 'val' to read"),
        ({"headers": HEADERS}, "'includeHeaders'"),
        ({"value": StringType()}, "column 'value' is binary, not string: read it as it is and cast it"),
        ({"partition": LongType()}, "column 'partition' is int, not bigint"),
    ],
)
@pytest.mark.parametrize("is_streaming", [False, True])
def test_a_schema_with_unknown_columns_or_types_is_refused(
    columns: dict[str, DataType], said: str, is_streaming: bool
) -> None:
    source = HeadwaterDataSource(MINIMAL)
    # Of a stream Spark reports errors of calls only, not those of the reader's creation.
    stream = source.streamReader(schema_of(columns))
    with pytest.raises(ConfigError, match=said):
        _ = stream.initialOffset() if is_streaming else source.reader(schema_of(columns))


def test_a_misspelt_option_is_refused_before_anything_is_read(headwater_broker: Broker) -> None:
    with pytest.raises(ConfigError, match="did you mean 'startingOffsets'"):
        batch(headwater_broker, {"subscribe": "orders", "startingOffset": "latest"})
