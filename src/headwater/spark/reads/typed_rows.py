"""Converts a task's rows from the fetched bytes to the columns that the user asked for."""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from headwater.ids import TopicPartition
from headwater.spark.arrow import Array
from headwater.spark.formats.decoding import Decoder, decode
from headwater.spark.options.broker_address import BrokerAddress
from headwater.spark.options.format_options import FormatOptions
from headwater.spark.reads import bad_records
from headwater.spark.reads.bad_records import BadField, DeadLetters
from headwater.spark.reads.columns import HEADERS, HEADERS_TYPE

_OFFSET: Final = StructField("offset", LongType())
_RECORD: Final = (
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField(HEADERS, HEADERS_TYPE),
)


class TypedRows:
    """`raw_schema` lists the columns to fetch: keys and values as bytes, and the columns that locate a bad record."""

    def __init__(
        self, options: FormatOptions, schema: StructType, partition: TopicPartition, broker_address: BrokerAddress
    ) -> None:
        self._options = options.bad_records
        self._partition = partition
        self._broker_address = broker_address
        self._schema = to_arrow_schema(schema, timezone="UTC")
        # Only columns of the query are decoded: a bad value in another column goes unnoticed.
        self._decoders: dict[str, Decoder] = {
            column.name: options.formats[column.name].decoder(column.dataType)
            for column in schema.fields
            if column.name in options.formats
        }
        self._dead_letters: DeadLetters | None = None
        self.raw_schema: pa.Schema = to_arrow_schema(self._raw(schema), timezone="UTC")

    def typed(self, raw: pa.RecordBatch) -> pa.RecordBatch:
        if not self._decoders:
            return raw
        columns: dict[str, Array] = {name: raw.column(name) for name in raw.schema.names}
        bad: dict[int, BadField] = {}
        for name, decoder in self._decoders.items():
            columns[name], failures = decode(decoder, columns[name])
            for row, reason in failures:
                bad.setdefault(row, BadField(name, reason))
        bad = dict(sorted(bad.items()))
        if bad and not self._options.has_column and self._options.topic is None:
            row, first = next(iter(bad.items()))
            raise bad_records.decode_error(self._partition, raw, row, first)
        if bad_records.COLUMN in self._schema.names:
            columns[bad_records.COLUMN] = bad_records.bad_record_column(raw, bad)
        batch = pa.RecordBatch.from_arrays([columns[name] for name in self._schema.names], schema=self._schema)
        return self._without(batch, raw, bad) if bad and self._options.topic is not None else batch

    def _without(self, batch: pa.RecordBatch, raw: pa.RecordBatch, bad: dict[int, BadField]) -> pa.RecordBatch:
        if self._dead_letters is None:
            assert self._options.topic is not None, "the caller checks it"
            self._dead_letters = DeadLetters(self._broker_address.cluster(), self._options.topic, self._partition)
        self._dead_letters.write(raw, bad)
        rows = pa.array(range(batch.num_rows), pa.int64())
        return batch.filter(pc.invert(pc.is_in(rows, value_set=pa.array(list(bad), pa.int64()))))

    def _raw(self, schema: StructType) -> StructType:
        if not self._decoders:
            return schema
        columns = {
            column.name: StructField(column.name, BinaryType()) if column.name in self._decoders else column
            for column in schema.fields
            if column.name != bad_records.COLUMN
        }
        for each in (_OFFSET, *(_RECORD if self._options.topic is not None else ())):
            columns.setdefault(each.name, each)
        return StructType(list(columns.values()))
