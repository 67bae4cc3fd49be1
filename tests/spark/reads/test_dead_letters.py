"""Dead letters as rows: what their headers say is in typed columns."""

from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql.types import BinaryType, BooleanType, LongType, StringType, StructField, StructType

from headwater.client.cluster import Cluster
from headwater.client.dead_letters.dead_letters import DeadLetters
from headwater.client.dead_letters.letter_topics import NoDeadLetterTopic
from headwater.client.producer import Producer
from headwater.client.schedule import Place
from headwater.errors import ConfigError
from headwater.protocol.batches.dead_letter_headers import Reason
from headwater.spark.source import HeadwaterDataSource
from headwater.testing import Broker
from tests.support.client.dead_letters import GIVEN_UP_MS, bury, letter_topic, origin
from tests.support.spark.reads import Rows, batch, read, rows, stream


def options(topic: str, **more: str) -> Mapping[str, str]:
    return {"subscribe": topic, "deadLetters": "true", **more}


def by_offset(found: Rows) -> Rows:
    return sorted(found, key=lambda row: (row["partition"], row["offset"]))


def test_headers_become_typed_columns(headwater_broker: Broker, cluster: Cluster) -> None:
    topic, dlq = letter_topic(cluster, 2)
    bury(cluster, dlq, [origin(topic, 7, reason=Reason.REJECTED)], value=b"\x00", key=b"\xff", partition=1)
    bury(cluster, dlq, [origin(topic, 8, is_copied=False, timestamp_ms=None)])
    list(DeadLetters(cluster, dlq).redrive([Place(1, 0)]))

    first, second = by_offset(read(headwater_broker, options(dlq)))

    assert (first["value"], first["contentCopied"], first["originTimestamp"]) == (None, False, None)
    written = second.pop("timestamp")
    assert written.timestamp() * 1000 > GIVEN_UP_MS
    for name, at_ms in (("givenUp", GIVEN_UP_MS + 7), ("originTimestamp", GIVEN_UP_MS - 1000)):
        assert round(second.pop(name).timestamp() * 1000) == at_ms
    assert second == {
        "key": b"\xff",
        "value": b"\x00",
        "topic": dlq,
        "partition": 1,
        "offset": 0,
        "timestampType": 0,
        "headers": [{"key": "trace", "value": b"1"}],
        "originTopic": topic,
        "originPartition": 1,
        "originOffset": 7,
        "groupId": "billing",
        "attempts": 5,
        "reason": "rejected",
        "message": "Offset rejected by client.",
        "contentCopied": True,
        "redrives": 0,
        "redriven": True,
    }
    assert first["redriven"] is False


def test_records_that_are_no_dead_letters_have_nothing_in_the_columns(
    headwater_broker: Broker, cluster: Cluster
) -> None:
    topic, dlq = letter_topic(cluster)
    with Producer(cluster) as producer:
        producer.send(dlq, b"other", headers=(("__dlq.errors.topic", b"t"), ("a", None)), partition=0)
    bury(cluster, dlq, [origin(topic, 2**62, time_ms=2**60, timestamp_ms=2**62)], headers=())

    other, letter = by_offset(read(headwater_broker, options(dlq)))

    assert (other["value"], other["originTopic"], other["contentCopied"], other["redriven"]) == (
        b"other",
        None,
        None,
        None,
    )
    assert (letter["originOffset"], letter["givenUp"], letter["originTimestamp"]) == (2**62, None, None)
    assert letter["headers"] == []


def test_a_schema_picks_columns_and_formats_apply(headwater_broker: Broker, cluster: Cluster) -> None:
    topic, dlq = letter_topic(cluster)
    bury(cluster, dlq, [origin(topic, 1)], value=b"caf\xc3\xa9")
    schema = StructType(
        [
            StructField("reason", StringType()),
            StructField("value", StringType()),
            StructField("originOffset", LongType()),
            StructField("redriven", BooleanType()),
        ]
    )
    found = read(headwater_broker, options(dlq, **{"value.format": "string"}), schema)
    assert [list(row.items()) for row in found] == [
        [("reason", "exhausted"), ("value", "café"), ("originOffset", 1), ("redriven", False)]
    ]


def test_a_stream_reads_what_comes(headwater_broker: Broker, cluster: Cluster) -> None:
    topic, dlq = letter_topic(cluster)
    bury(cluster, dlq, [origin(topic, 1)])
    reader = stream(headwater_broker, options(dlq, startingOffsets="earliest"))
    start = reader.initialOffset()
    bury(cluster, dlq, [origin(topic, 2)])
    found = rows(reader, reader.partitions(start, reader.reportLatestOffset()))
    assert [row["originOffset"] for row in by_offset(found)] == [1, 2]


def test_other_topics_are_refused(headwater_broker: Broker, cluster: Cluster) -> None:
    topic, dlq = letter_topic(cluster)
    with pytest.raises(NoDeadLetterTopic, match=f"its dead letters are in '{dlq}'"):
        batch(headwater_broker, options(topic)).partitions()
    with pytest.raises(NoDeadLetterTopic):
        stream(headwater_broker, options(f"{dlq},{topic}")).initialOffset()


def test_the_columns_need_the_option() -> None:
    given = {"bootstrap.servers": "localhost:9092", "subscribe": "orders"}
    schema: Any = HeadwaterDataSource({**given, "deadLetters": "true"}).schema()
    names = schema.fieldNames()
    assert names[7:] == [
        "headers", "originTopic", "originPartition", "originOffset", "originTimestamp", "groupId", "attempts", "reason",
        "message", "givenUp", "contentCopied", "redrives", "redriven",
    ]  # fmt: skip
    schema = StructType([StructField("reason", StringType())])
    with pytest.raises(ConfigError, match="no column 'reason' to read; set the option 'deadLetters'"):
        HeadwaterDataSource(given).reader(schema)
    with pytest.raises(ConfigError, match="'reason'"):
        HeadwaterDataSource({**given, "deadLetters": "true"}).reader(StructType([StructField("reason", BinaryType())]))
