"""The columns of a read with `deadLetters`: what the headers of a dead letter say, as typed columns.

Dead letters are few compared with other records, so each is read as a Python object.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headwater.client.cluster import Cluster
from headwater.client.dead_letters.journal import RedriveJournal
from headwater.client.dead_letters.letter_topics import letter_topic
from headwater.client.dead_letters.offset_runs import OffsetRuns
from headwater.ids import TopicPartition
from headwater.protocol.batches import dead_letter_headers
from headwater.protocol.batches.records import Headers
from headwater.spark.arrow import HEADERS, Array
from headwater.spark.options.broker_address import BrokerAddress

ORIGIN_TOPIC: Final = "originTopic"
ORIGIN_PARTITION: Final = "originPartition"
CONTENT_COPIED: Final = "contentCopied"
REDRIVEN: Final = "redriven"
TYPES: Final[Mapping[str, DataType]] = {
    ORIGIN_TOPIC: StringType(),
    ORIGIN_PARTITION: IntegerType(),
    "originOffset": LongType(),
    "originTimestamp": TimestampType(),
    "groupId": StringType(),
    "attempts": IntegerType(),
    "reason": StringType(),
    "message": StringType(),
    "givenUp": TimestampType(),
    CONTENT_COPIED: BooleanType(),
    "redrives": IntegerType(),
    REDRIVEN: BooleanType(),
}

_HEADERS: Final = "headers"
# The end of the year 9999, and of Spark's timestamps.
_TIME_MS_MAX: Final = 253_402_300_799_999


class DeadLetterRows:
    """`inner_schema` has the columns that are read from the records before."""

    def __init__(
        self, schema: StructType, headers_type: DataType, partition: TopicPartition, address: BrokerAddress
    ) -> None:
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._partition = partition
        self._redriven = _redriven(address.cluster(), partition) if REDRIVEN in schema.names else None
        columns = {column.name: column for column in schema.fields if column.name not in TYPES}
        columns[_HEADERS] = StructField(_HEADERS, headers_type)
        columns.setdefault("offset", StructField("offset", LongType()))
        columns.setdefault("timestamp", StructField("timestamp", TimestampType()))
        self.inner_schema = StructType(list(columns.values()))

    def converted(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        columns: dict[str, Array] = {name: rows.column(name) for name in rows.schema.names}
        offsets, timestamps = columns["offset"].to_pylist(), columns["timestamp"].to_pylist()
        lists = [_headers(each) for each in columns[_HEADERS].to_pylist()]
        told = [
            self._told(headers, offset, timestamp)
            for headers, offset, timestamp in zip(lists, offsets, timestamps, strict=True)
        ]
        own = [dead_letter_headers.stripped(headers) for headers in lists]
        columns[_HEADERS] = pa.array(
            [[{"key": name, "value": value} for name, value in headers] for headers in own], HEADERS
        )
        built = [
            columns[name] if name in columns else pa.array([each.get(name) for each in told], kind)
            for name, kind in zip(self._schema.names, self._schema.types, strict=True)
        ]
        return pa.RecordBatch.from_arrays(built, schema=self._schema)

    def _told(self, headers: Headers, offset: int, timestamp: Any) -> dict[str, Any]:
        """By column; nothing if the record is no dead letter."""
        origin = dead_letter_headers.read(headers)
        if origin is None:
            return {}
        return {
            ORIGIN_TOPIC: origin.topic,
            ORIGIN_PARTITION: origin.partition,
            "originOffset": origin.offset,
            "originTimestamp": _microseconds(origin.timestamp_ms),
            "groupId": origin.group,
            "attempts": origin.delivery_count,
            "reason": origin.reason.label,
            "message": dead_letter_headers.message(headers),
            "givenUp": timestamp if origin.time_ms < 0 else _microseconds(origin.time_ms),
            CONTENT_COPIED: origin.is_copied,
            "redrives": dead_letter_headers.redriven_count(dead_letter_headers.stripped(headers)),
            REDRIVEN: None if self._redriven is None else offset in self._redriven,
        }


def check_letter_topics(cluster: Cluster, partitions: Iterable[TopicPartition]) -> None:
    """Refuse topics that take no dead letters: all of the columns would be null."""
    for topic in sorted({partition.topic for partition in partitions}):
        letter_topic(cluster, topic)


def _redriven(cluster: Cluster, partition: TopicPartition) -> OffsetRuns | None:
    journal = RedriveJournal(cluster, cluster.topic(partition.topic)).read_if_allowed()
    return None if journal is None else journal.get(partition.partition, OffsetRuns())


def _headers(pairs: list[dict[str, Any]] | None) -> Headers:
    return tuple((cast("str", pair["key"]), cast("bytes | None", pair["value"])) for pair in pairs or ())


def _microseconds(time_ms: int | None) -> int | None:
    """None also for a time that Spark's timestamps do not reach."""
    return None if time_ms is None or time_ms > _TIME_MS_MAX else time_ms * 1000
