"""`format("headwater")`: what Spark asks for, by the names that Spark has for it.

Readers and writers are imported when they are wanted: each runs in a Python process of its own.
"""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType


class HeadwaterDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "headwater"

    def schema(self) -> StructType | str:
        from headwater.spark.reads.columns import columns_of

        return columns_of(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        from headwater.spark.reads.batch_reader import batch_reader

        return batch_reader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from headwater.spark.reads.stream_reader import stream_reader

        return stream_reader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from headwater.spark.writes.batch_writer import batch_writer

        return batch_writer(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002
        # A query in mode "complete" appends its whole result each time, as to Spark's Kafka sink.
        from headwater.spark.writes.stream_writer import stream_writer

        return stream_writer(self.options, schema)
