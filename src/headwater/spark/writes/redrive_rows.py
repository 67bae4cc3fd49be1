"""Puts dead letters back, with the option `redrive`: rows of a read with `deadLetters` become the records that they
were, and entries of the journals of their dead-letter topics (`client/dead_letters/journal.py`).

Both are staged in one transaction, and published in one step with those of all other tasks. A letter that the journal
has already is left out: the same job may run again.
"""

import logging
from collections.abc import Iterable, Iterator
from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.compute
from pyspark.sql.types import BooleanType, DataType, IntegerType, LongType, StringType

from headwater.client.cluster import Cluster
from headwater.client.dead_letters.journal import RedriveJournal, Redriven
from headwater.client.errors import Refused
from headwater.client.schedule import Place
from headwater.errors import ConfigError, ErrorCode
from headwater.ids import TopicName, TopicPartition
from headwater.protocol.batches import dead_letter_headers
from headwater.protocol.batches.records import Record
from headwater.spark.arrow import Array
from headwater.spark.options.write_options import REDRIVE, WriteOptions
from headwater.spark.reads.dead_letter_columns import CONTENT_COPIED, ORIGIN_PARTITION, ORIGIN_TOPIC
from headwater.spark.writes.header_lists import with_headers
from headwater.spark.writes.row_refused import RowRefused

# The stubs of its functions do not know all that they take.
pc: Any = pyarrow.compute

_log = logging.getLogger(__name__)

_TYPES: Final[dict[str, type[DataType]]] = {
    "topic": StringType,
    "partition": IntegerType,
    "offset": LongType,
    ORIGIN_TOPIC: StringType,
    ORIGIN_PARTITION: IntegerType,
    CONTENT_COPIED: BooleanType,
}


def check_letters(types: dict[str, DataType]) -> None:
    missing = [name for name in (*_TYPES, "headers") if name not in types]
    if missing:
        raise ConfigError(
            f"option {REDRIVE!r} takes the rows of a read with the option 'deadLetters'; they lack {', '.join(missing)}"
        )
    for name, kind in _TYPES.items():
        if not isinstance(types[name], kind):
            raise ConfigError(f"column {name!r} is {types[name].simpleString()}; a redrive takes it as it was read")


class RedriveRows:
    """Of one task."""

    def __init__(self, cluster: Cluster, options: WriteOptions) -> None:
        self._cluster = cluster
        self._to = options.topic
        self._journals: dict[TopicName, RedriveJournal] = {}
        self._redriven: dict[TopicName, Redriven] = {}
        self._places: dict[TopicName, set[Place]] = {}
        # Those that were seen to exist.
        self._origins: set[str] = set()

    def records(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The letters as rows to write. Those that were put back already are left out."""
        left_out = 0
        for rows in batches:
            chosen = self._not_redriven(rows)
            left_out += rows.num_rows - chosen.num_rows
            if chosen.num_rows:
                yield self._as_records(chosen)
        if left_out:
            _log.warning("%d dead letters were put back already, and are left out", left_out)

    def entries(self) -> Iterator[tuple[TopicPartition, list[Record]]]:
        """What the journals have to be told once `records` is exhausted."""
        for topic, places in self._places.items():
            yield self._journals[topic].partition, self._journals[topic].entry(sorted(places))

    def _not_redriven(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        columns = (_column(rows, name).to_pylist() for name in ("topic", "partition", "offset"))
        keeps = [self._take(TopicName(topic), Place(*place)) for topic, *place in zip(*columns, strict=True)]
        return rows.filter(pa.array(keeps, pa.bool_()))

    def _take(self, topic: TopicName, place: Place) -> bool:
        if topic not in self._journals:
            journal = self._journals[topic] = RedriveJournal(self._cluster, self._cluster.topic(topic))
            journal.create()
            self._redriven[topic] = journal.read()
            self._places[topic] = set()
        runs = self._redriven[topic].get(place.partition)
        if place in self._places[topic] or (runs is not None and place.offset in runs):
            return False
        self._places[topic].add(place)
        return True

    def _as_records(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        origins = _column(rows, ORIGIN_TOPIC)
        if origins.null_count:
            raise RowRefused(f"a row is no dead letter: leave it out with where('{ORIGIN_TOPIC} is not null')")
        if not pc.all(pc.fill_null(_column(rows, CONTENT_COPIED), False)).as_py():
            raise RowRefused(
                "the content of a record is not in the dead-letter topic, so it cannot be put back: leave it out with "
                f"where('{CONTENT_COPIED}')"
            )
        if pc.any(pc.equal(self._to or origins, _column(rows, "topic"))).as_py():
            raise RowRefused("a row would be put back into the dead-letter topic that it comes from")
        if self._to is None:
            self._check_origins(pc.unique(origins).to_pylist())
        marks: Any = pc.binary_join_element_wise(
            _column(rows, "topic"), "/", _text(rows, "partition"), "@", _text(rows, "offset"), ""
        )
        columns: dict[str, Array] = {name: _column(rows, name) for name in rows.schema.names}
        columns["headers"] = with_headers(columns["headers"], rows.num_rows, [(dead_letter_headers.REDRIVEN, marks)])
        columns["topic"] = origins
        if self._to is None:
            columns["partition"] = _column(rows, ORIGIN_PARTITION)
        else:
            # In another topic the keys choose.
            del columns["partition"]
        return pa.RecordBatch.from_pydict(columns)

    def _check_origins(self, topics: Iterable[str]) -> None:
        """A dead letter does not bring back a topic that was deleted, nor may it name one of the broker's own."""
        for topic in topics:
            if topic not in self._origins:
                try:
                    found = self._cluster.topics([topic])
                except Refused as refusal:
                    if refusal.code not in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
                        raise
                    found = []
                if not found or found[0].is_internal:
                    raise RowRefused(
                        f"topic '{topic}', which a dead letter comes from, does not exist: set the option 'topic' to "
                        "put letters into another one, or leave them out"
                    )
                self._origins.add(topic)


def _column(rows: pa.RecordBatch, name: str) -> Array:
    return cast("Array", rows.column(name))


def _text(rows: pa.RecordBatch, name: str) -> Array:
    return _column(rows, name).cast(pa.string())
