"""Columns that ask for a delay, a priority or a time to live become headers, which the topic must heed."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    DataType,
    DayTimeIntervalType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headwater.client.cluster import Cluster
from headwater.client.errors import Refused
from headwater.client.schedule import Schedule
from headwater.errors import ConfigError
from headwater.spark.arrow import HEADERS, TIMESTAMP
from headwater.spark.options.write_options import write_options
from headwater.spark.writes.contract import check_columns
from headwater.spark.writes.header_lists import with_headers
from headwater.spark.writes.row_refused import RowRefused
from headwater.spark.writes.task_writer import write_task
from headwater.testing import Broker
from tests.support.spark.written import create, messages

HEEDED = {"headwater_delay_enable": "true", "headwater_priority_enable": "true", "headwater_ttl_enable": "true"}
TOMORROW = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
DURATION = pa.duration("us")
LISTS = [[("a", b"1"), ("b", None)], None, [], [("c", b"2")]]


def write(broker: Broker, to: str | None, **columns: Any) -> None:
    options = {"bootstrap.servers": broker.bootstrap_servers, "includeDirectives": "true"}
    if to is not None:
        options["topic"] = to
    rows = pa.RecordBatch.from_pydict(columns)
    write_task(iter([rows]), write_options(options, is_streaming=False), None)


def lists(values: Sequence[Any]) -> Any:
    pairs = [None if each is None else [{"key": key, "value": value} for key, value in each] for each in values]
    return pa.array(pairs, HEADERS)


def pairs(array: Any) -> list[list[tuple[str, bytes | None]]]:
    return [[(each["key"], each["value"]) for each in row] for row in array.to_pylist()]


def test_headers_are_appended_to_those_of_each_row() -> None:
    added = [("x", pa.array(["7", None, "8", None])), ("y", pa.array([None, None, "9", "10"]))]
    for given, start in ((lists(LISTS), 0), (lists([[("z", b"0")], *LISTS]), 1)):
        assert pairs(with_headers(given.slice(start), 4, added)) == [
            [("a", b"1"), ("b", None), ("x", b"7")],
            [],
            [("x", b"8"), ("y", b"9")],
            [("c", b"2"), ("y", b"10")],
        ]
    assert pairs(with_headers(None, 4, added)) == [[("x", b"7")], [], [("x", b"8"), ("y", b"9")], [("y", b"10")]]
    assert pairs(with_headers(None, 2, [("x", pa.array([None, None], pa.string()))])) == [[], []]
    assert pairs(with_headers(lists([]), 0, [("x", pa.array([], pa.string()))])) == []


def test_columns_become_headers(headwater_broker: Broker, topic: str) -> None:
    create(headwater_broker, topic, headwater_priority_enable="true", headwater_ttl_enable="true")
    write(
        headwater_broker,
        topic,
        value=["urgent", "short", "plain"],
        headers=lists([[("trace", b"1")], None, []]),
        priority=pa.array([0, None, None], pa.int32()),
        ttl=pa.array([None, timedelta(hours=1), None], DURATION),
        # Not asked for in any row, so the topic need not heed it.
        delay=pa.array([None, None, None], DURATION),
    )
    assert {each.value: list(each.headers) for each in messages(headwater_broker, topic)} == {
        b"urgent": [("trace", b"1"), ("headwater-priority", b"0")],
        b"short": [("headwater-ttl-ms", b"3600000")],
        b"plain": [],
    }


def test_records_are_scheduled(headwater_broker: Broker, cluster: Cluster, topic: str) -> None:
    create(headwater_broker, topic, 1, **HEEDED)
    now_ms = cluster.clock.now_ms()
    write(
        headwater_broker,
        topic,
        value=["at", "in", "now"],
        deliver_at=pa.array([TOMORROW + timedelta(microseconds=1), None, None], TIMESTAMP),
        delay=pa.array([None, timedelta(hours=2), None], DURATION),
        schedule_id=["invoice-7", None, None],
    )
    found = {each.value: each for each in Schedule(cluster, topic).records(with_contents=True)}
    assert found.keys() == {b"at", b"in"}
    assert found[b"at"].due_ms == int(TOMORROW.timestamp() * 1000) + 1, "rounded up, never early"
    assert found[b"at"].schedule_id == "invoice-7"
    assert found[b"in"].due_ms >= now_ms + 7_200_000
    assert [each.value for each in messages(headwater_broker, topic)] == [b"now"]


@pytest.mark.parametrize(
    ("columns", "setting"),
    [
        ({"deliver_at": pa.array([TOMORROW], TIMESTAMP)}, r"headwater\.delay\.enable"),
        ({"priority": pa.array([1], pa.int32())}, r"headwater\.priority\.enable"),
        ({"ttl": pa.array([timedelta(1)], DURATION)}, r"headwater\.ttl\.enable"),
    ],
)
def test_a_topic_that_does_not_heed_it_is_refused(
    headwater_broker: Broker, topic: str, columns: dict[str, Any], setting: str
) -> None:
    create(headwater_broker, topic)
    with pytest.raises(RowRefused, match=f"which that topic does not heed: set {setting}=true on it"):
        write(headwater_broker, topic, value=["v"], **columns)
    assert messages(headwater_broker, topic) == []


def test_each_topic_is_asked_about_its_own_rows(headwater_broker: Broker, topic: str) -> None:
    create(headwater_broker, topic, headwater_priority_enable="true")
    create(headwater_broker, f"{topic}.plain")
    write(
        headwater_broker,
        None,
        value=["a", "b"],
        topic=[topic, f"{topic}.plain"],
        priority=pa.array([1, None], pa.int32()),
    )
    assert [each.value for each in messages(headwater_broker, f"{topic}.plain")] == [b"b"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"priority": pa.array([5], pa.int32())}, "priority 5: 0 .critical. to 4 .background. exist"),
        ({"priority": pa.array([-1], pa.int32())}, "priority -1"),
        ({"delay": pa.array([timedelta(seconds=-1)], DURATION)}, "negative 'delay'"),
        ({"ttl": pa.array([timedelta(seconds=-1)], DURATION)}, "negative 'ttl'"),
        ({"deliver_at": pa.array([datetime(1969, 1, 1, tzinfo=UTC)], TIMESTAMP)}, "'deliver_at' before 1970"),
        (
            {"deliver_at": pa.array([TOMORROW], TIMESTAMP), "delay": pa.array([timedelta(1)], DURATION)},
            "both 'deliver_at' and 'delay'",
        ),
    ],
)
def test_impossible_values_are_refused(
    headwater_broker: Broker, topic: str, columns: dict[str, Any], message: str
) -> None:
    create(headwater_broker, topic, 3, **HEEDED)
    with pytest.raises(RowRefused, match=message):
        write(headwater_broker, topic, value=["v"], **columns)


def test_the_broker_refuses_what_only_it_knows(headwater_broker: Broker, topic: str) -> None:
    create(headwater_broker, topic, 3, **HEEDED)
    with pytest.raises(Refused, match="headwater-schedule-id"):
        write(headwater_broker, topic, value=["v"], schedule_id=["x" * 300], delay=pa.array([timedelta(1)], DURATION))
    with pytest.raises(Refused):
        write(headwater_broker, topic, value=["v"], delay=pa.array([timedelta(days=4000)], DURATION))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "needs one of the columns deliver_at, delay, schedule_id, priority, ttl"),
        ({"deliver_at": LongType()}, "column 'deliver_at' is bigint; a write takes it as timestamp"),
        ({"delay": LongType()}, "column 'delay' is bigint; .* such as INTERVAL 10 MINUTES"),
        ({"priority": StringType()}, "column 'priority' is string; a write takes it as int"),
        ({"ttl": IntegerType()}, "column 'ttl' is int"),
        ({"schedule_id": StringType()}, "it needs 'deliver_at' or 'delay'"),
    ],
)
def test_wrong_columns_are_refused_when_the_query_is_defined(columns: dict[str, DataType], message: str) -> None:
    schema = StructType([StructField(name, kind) for name, kind in {"value": StringType(), **columns}.items()])
    given = {"bootstrap.servers": "localhost:9092", "topic": "t"}
    check_columns(schema, write_options(given, is_streaming=False))
    with pytest.raises(ConfigError, match=message):
        check_columns(schema, write_options({**given, "includeDirectives": "true"}, is_streaming=False))


def test_right_columns_are_accepted() -> None:
    kinds = {
        "value": StringType(), "deliver_at": TimestampType(), "delay": DayTimeIntervalType(), "priority": IntegerType()
    }  # fmt: skip
    schema = StructType([StructField(name, kind) for name, kind in kinds.items()])
    given = {"bootstrap.servers": "localhost:9092", "topic": "t", "includeDirectives": "true"}
    check_columns(schema, write_options(given, is_streaming=False))
