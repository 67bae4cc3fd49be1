"""Columns that ask the broker for something, with `includeDirectives`: when to deliver a record, how urgent it is, how
long it lives. They become headers (see `protocol/batches/directives.py`)."""

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute
from pyspark.sql.types import DataType, DayTimeIntervalType, IntegerType, StringType, TimestampType

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.errors import Refused
from headwater.errors import ConfigError, ErrorCode
from headwater.ids import TopicName
from headwater.protocol.batches import directives
from headwater.spark.arrow import TIMESTAMP, Array, int32_array
from headwater.spark.options.write_options import INCLUDE_DIRECTIVES
from headwater.spark.writes.header_lists import with_headers
from headwater.spark.writes.row_refused import RowRefused

# The stubs of its functions do not know all that they take.
pc: Any = pyarrow.compute

DELIVER_AT: Final = "deliver_at"
DELAY: Final = "delay"
SCHEDULE_ID: Final = "schedule_id"
PRIORITY: Final = "priority"
TTL: Final = "ttl"

_TYPES: Final[dict[str, tuple[type[DataType], str]]] = {
    DELIVER_AT: (TimestampType, "timestamp"),
    DELAY: (DayTimeIntervalType, "interval day to second, such as INTERVAL 10 MINUTES"),
    SCHEDULE_ID: (StringType, "string"),
    PRIORITY: (IntegerType, "int, from 0 (critical) to 4 (background)"),
    TTL: (DayTimeIntervalType, "interval day to second, such as INTERVAL 1 HOUR"),
}
_HEADERS: Final = {
    DELIVER_AT: directives.DELIVER_AT,
    DELAY: directives.DELAY_MS,
    SCHEDULE_ID: directives.SCHEDULE_ID,
    PRIORITY: directives.PRIORITY,
    TTL: directives.TTL_MS,
}
_SETTINGS: Final = {
    DELIVER_AT: "headwater.delay.enable",
    DELAY: "headwater.delay.enable",
    SCHEDULE_ID: "headwater.delay.enable",
    PRIORITY: "headwater.priority.enable",
    TTL: "headwater.ttl.enable",
}
_DURATION: Final = pa.duration("us")


def check_directives(types: dict[str, DataType]) -> None:
    given = [name for name in _TYPES if name in types]
    if not given:
        raise ConfigError(f"option {INCLUDE_DIRECTIVES!r} needs one of the columns {', '.join(_TYPES)}")
    for name in given:
        kind, wanted = _TYPES[name]
        if not isinstance(types[name], kind):
            raise ConfigError(f"column {name!r} is {types[name].simpleString()}; a write takes it as {wanted}")
    if SCHEDULE_ID in given and DELIVER_AT not in given and DELAY not in given:
        raise ConfigError(f"column {SCHEDULE_ID!r} names scheduled records: it needs {DELIVER_AT!r} or {DELAY!r}")


class DirectiveColumns:
    """Of a task: remembers which topics heed which columns."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._settings: dict[TopicName, dict[str, str | None] | None] = {}

    def add_headers(self, written: pa.RecordBatch, rows: pa.RecordBatch) -> pa.RecordBatch:
        """`written` with the directives of `rows` among its headers."""
        columns = _columns(rows)
        _check(columns)
        given: dict[str, Array] = {name: written.column(name) for name in written.schema.names}
        added = [(_HEADERS[name], _written(name, column)) for name, column in columns.items()]
        given["headers"] = with_headers(given.get("headers"), rows.num_rows, added)
        return pa.RecordBatch.from_pydict(given)

    def check_topic(self, topic: TopicName, rows: pa.RecordBatch, selection: Any) -> None:
        """A topic takes headers that it does not heed as any others: what is to come later would come at once."""
        for name, column in _columns(rows).items():
            setting = _SETTINGS[name]
            chosen: Array = column if selection is None else column.take(int32_array(selection))
            if chosen.null_count < len(chosen) and not self._heeds(topic, setting):
                raise RowRefused(
                    f"a row for topic '{topic}' has a value in column {name!r}, which that topic does not heed: "
                    f"set {setting}=true on it"
                )

    def _heeds(self, topic: TopicName, setting: str) -> bool:
        if topic not in self._settings:
            self._settings[topic] = self._ask(topic)
        known = self._settings[topic]
        # Without the right to see the settings it cannot be checked.
        return known is None or known.get(setting) == "true"

    def _ask(self, topic: TopicName) -> dict[str, str | None] | None:
        try:
            self._cluster.topic(topic, create=True)
            return {each.name: each.value for each in Admin(self._cluster).describe_settings(topic)}
        except Refused as refusal:
            if refusal.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                return None
            raise


def _columns(rows: pa.RecordBatch) -> dict[str, Array]:
    return {name: rows.column(name) for name in _TYPES if name in rows.schema.names}


def _check(columns: dict[str, Array]) -> None:
    for name in (DELAY, TTL):
        if name in columns and _lowest(columns[name].cast(_DURATION).cast(pa.int64())) < 0:
            raise RowRefused(f"a row has a negative {name!r}")
    if DELIVER_AT in columns and _lowest(columns[DELIVER_AT].cast(TIMESTAMP).cast(pa.int64())) < 0:
        raise RowRefused(f"a row has a {DELIVER_AT!r} before 1970")
    if PRIORITY in columns:
        priorities: Array = columns[PRIORITY]
        limits: Any = pc.min_max(priorities)
        for each in (limits["min"].as_py(), limits["max"].as_py()):
            if each is not None and not 0 <= each < directives.PRIORITIES:
                raise RowRefused(
                    f"a row has the priority {each}: 0 (critical) to {directives.PRIORITIES - 1} (background) exist"
                )
    if DELIVER_AT in columns and DELAY in columns:
        both: Array = pc.and_(columns[DELIVER_AT].is_valid(), columns[DELAY].is_valid())
        if pc.any(both).as_py():
            raise RowRefused(f"a row has both {DELIVER_AT!r} and {DELAY!r}: only one of them may be given")


def _lowest(numbers: Array) -> int:
    found: int | None = pc.min(numbers).as_py()
    return 0 if found is None else found


def _written(name: str, column: Array) -> Array:
    """As the header says it. Times are rounded up to milliseconds: no record may come too early."""
    match name:
        case "deliver_at":
            return _text(_milliseconds(column.cast(TIMESTAMP)))
        case "delay" | "ttl":
            return _text(_milliseconds(column.cast(_DURATION)))
        case "priority":
            return _text(column)
        case _:
            return column.cast(pa.string())


def _milliseconds(column: Array) -> Array:
    microseconds: Array = column.cast(pa.int64())
    return pc.divide(pc.add(microseconds, 999), 1000)


def _text(numbers: Array) -> Array:
    return numbers.cast(pa.string())
