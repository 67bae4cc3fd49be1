"""`format("headwater")`: Spark's entry points for readers and writers, under the names that Spark's API prescribes.

Readers and writers are imported lazily, because Spark runs each of them in a separate Python process.
"""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from headwater.errors import HeadwaterError
from headwater.spark.errors import sentence_only
from headwater.spark.source_name import NAME


class HeadwaterDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType | str:
        """Called where a read without a schema is defined, and for tables and views created without columns."""
        from headwater.spark import tables
        from headwater.spark.options.read_options import check_options
        from headwater.spark.reads.columns import read_schema

        with sentence_only():
            created = tables.created(self.options)
            if created is not None:
                return tables.schema(created)
            target = tables.target(self.options)
            if target is not None:
                return target
            check_options(self.options)
            return read_schema(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        from headwater.spark import tables
        from headwater.spark.reads.batch_reader import batch_reader

        with sentence_only():
            return batch_reader(tables.read_options(self.options, schema), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from headwater.spark import tables
        from headwater.spark.reads.stream_reader import RefusedStreamReader, stream_reader

        try:
            return stream_reader(tables.read_options(self.options, schema), schema)
        except HeadwaterError as error:
            # Spark would report an error of its own instead, about a reader that it cannot stop.
            return RefusedStreamReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from headwater.spark.writes.batch_writer import batch_writer

        with sentence_only():
            return batch_writer(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002
        # `overwrite` has no effect: in output mode "complete" each batch appends the whole result, as with Spark's
        # Kafka sink.
        from headwater.spark.writes.stream_writer import stream_writer

        with sentence_only():
            return stream_writer(self.options, schema)
