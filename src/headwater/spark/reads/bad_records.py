"""Records whose key or value does not decode: they fail the read, show in a column, or go to a dead-letter topic."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

import pyarrow as pa
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from headwater.client.cluster import Cluster
from headwater.client.producer import Producer
from headwater.errors import ConfigError, ErrorCode, HeadwaterError
from headwater.ids import TopicName, TopicPartition
from headwater.printable import printable
from headwater.protocol.batches.records import Headers
from headwater.spark.arrow import Array
from headwater.spark.formats.types import array, arrow_type
from headwater.spark.options.options import Options

OPTION: Final = "badRecords"
COLUMN: Final = "badRecord"
COLUMN_TYPE: Final = StructType(
    [StructField("field", StringType()), StructField("reason", StringType()), StructField("bytes", BinaryType())]
)
_ARROW_TYPE: Final = arrow_type(COLUMN_TYPE)
_TOPIC: Final = re.compile(r"topic:([A-Za-z0-9._-]{1,249})")


class BadRecord(HeadwaterError):
    """A record whose key or value does not match its format."""

    code = ErrorCode.INVALID_RECORD


class BadField(NamedTuple):
    """The column of a row that does not decode, and the reason."""

    field: str
    reason: str


@dataclass(frozen=True, slots=True)
class BadRecordPolicy:
    """What a read does with bad records. If neither field is set, the read fails."""

    has_column: bool = False
    topic: TopicName | None = None


def bad_record_policy(options: Options) -> BadRecordPolicy:
    text = (options.text(OPTION) or "fail").strip()
    if text.lower() == "fail":
        return BadRecordPolicy()
    if text.lower() == "column":
        return BadRecordPolicy(has_column=True)
    match = _TOPIC.fullmatch(text)
    if match is None:
        raise ConfigError(f"option {OPTION!r} is 'fail', 'column' or 'topic:' and a topic's name, not {text!r}")
    return BadRecordPolicy(topic=TopicName(match[1]))


def decode_error(partition: TopicPartition, raw: pa.RecordBatch, row: int, bad: BadField) -> BadRecord:
    offset = _cell(raw, "offset", row)
    return BadRecord(
        f"the {bad.field} at offset {offset} of {partition} does not decode: {printable(bad.reason)}. "
        f"Set the option {OPTION!r} to read past it"
    )


def bad_record_column(raw: pa.RecordBatch, bad: Mapping[int, BadField]) -> Array:
    """The column `badRecord`, which is null in all good rows."""
    if not bad:
        return cast("Array", pa.nulls(raw.num_rows, _ARROW_TYPE))
    rows: list[dict[str, Any] | None] = [None] * raw.num_rows
    for row, (field, reason) in bad.items():
        rows[row] = {"field": field, "reason": reason, "bytes": _cell(raw, field, row)}
    return array(rows, _ARROW_TYPE)


class DeadLetters:
    """Writes bad records to the dead-letter topic.

    Law: the topic has acknowledged the bad records before the task emits the remaining rows. Delivery is at least
    once: a retried task writes them again.
    """

    def __init__(self, cluster: Cluster, topic: TopicName, partition: TopicPartition) -> None:
        self._producer = Producer(cluster)
        self._topic = topic
        self._partition = partition

    def write(self, raw: pa.RecordBatch, bad: Mapping[int, BadField]) -> None:
        for row, each in bad.items():
            self._producer.send(
                self._topic,
                _cell(raw, "value", row),
                key=_cell(raw, "key", row),
                headers=self._headers(raw, row, each),
            )
        self._producer.flush()

    def _headers(self, raw: pa.RecordBatch, row: int, bad: BadField) -> Headers:
        found = cast("list[dict[str, Any]] | None", _cell(raw, "headers", row)) or []
        about = {
            "headwater.reason": bad.reason,
            "headwater.field": bad.field,
            "headwater.topic": self._partition.topic,
            "headwater.partition": str(self._partition.partition),
            "headwater.offset": str(_cell(raw, "offset", row)),
        }
        return (
            *((str(header["key"]), cast("bytes | None", header["value"])) for header in found),
            *((name, text.encode()) for name, text in about.items()),
        )


def _cell(raw: pa.RecordBatch, column: str, row: int) -> Any:
    return cast("Array", raw.column(column))[row].as_py()
