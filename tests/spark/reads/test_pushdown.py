"""Filter pushdown: a plan reads only the parts of the log that may hold records that pass."""

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
)

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.spark.reads.plan import OffsetRange
from headwater.testing import Broker
from tests.support.spark.reads import batch, numbered, one, produce, ranges

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def hourly(cluster: Cluster, topic: str) -> str:
    """A topic of two partitions with one record for each of a hundred hours."""
    Admin(cluster).create_topic(topic, partition_count=2, settings={"retention.ms": "-1"})
    times_ms = [int((START + number * HOUR).timestamp() * 1000) for number in range(100)]
    for partition in range(2):
        produce(cluster, topic, numbered(100), partition=partition, times_ms=times_ms)
    return topic


def planned(broker: Broker, given: dict[str, str], *filters: Filter) -> list[OffsetRange]:
    reader = batch(broker, {"pushFilters": "true", **given})
    assert list(reader.pushFilters(list(filters))) == list(filters), "Spark filters again"
    return ranges(reader.partitions())


def test_a_time_range_reads_only_its_part(headwater_broker: Broker, hourly: str) -> None:
    window = (
        IsNotNull(("timestamp",)),
        GreaterThanOrEqual(("timestamp",), START + 20 * HOUR),
        LessThan(("timestamp",), START + 30 * HOUR),
    )

    ordered = planned(headwater_broker, {"subscribe": hourly, "timestampOrder": "rising"}, *window)
    assert ordered == [OffsetRange(one(hourly, index), 20, 31) for index in range(2)], "30 is cut to its millisecond"
    unordered = planned(headwater_broker, {"subscribe": hourly}, *window)
    assert unordered == [OffsetRange(one(hourly, index), 20, 100) for index in range(2)], "an old one may follow"


def test_partitions_and_offsets_narrow_a_read(headwater_broker: Broker, hourly: str) -> None:
    given = {"subscribe": hourly}
    assert planned(headwater_broker, given, EqualTo(("partition",), 1), LessThan(("offset",), 7)) == [
        OffsetRange(one(hourly, 1), 0, 7)
    ]
    assert planned(headwater_broker, given, In(("topic",), ("another",))) == []


def test_filters_narrow_the_range_of_the_options_further(headwater_broker: Broker, hourly: str) -> None:
    given = {"subscribe": hourly, "startingOffsets": f'{{"{hourly}": {{"0": 50, "1": 99}}}}', "minPartitions": "4"}
    found = planned(headwater_broker, given, LessThan(("offset",), 60))
    assert [(each.partition.partition, each.start, each.end) for each in found] == [
        (0, 50, 52),
        (0, 52, 55),
        (0, 55, 57),
        (0, 57, 60),
    ]


def test_a_time_after_all_records_reads_nothing(headwater_broker: Broker, hourly: str) -> None:
    late = GreaterThanOrEqual(("timestamp",), START + 500 * HOUR)
    assert planned(headwater_broker, {"subscribe": hourly}, late) == []


def test_a_reader_takes_filters_only_if_it_is_asked_to(headwater_broker: Broker, hourly: str) -> None:
    """Unless the session allows pushdown, Spark refuses a reader that accepts filters."""
    without = type(batch(headwater_broker, {"subscribe": hourly}))
    assert without.pushFilters is DataSourceReader.pushFilters
