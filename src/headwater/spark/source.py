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


class HeadwaterDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "headwater"

    def schema(self) -> StructType | str:
        from headwater.spark.reads.columns import read_schema

        return read_schema(self.options)

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
        # `overwrite` has no effect: in output mode "complete" each batch appends the whole result, as with Spark's
        # Kafka sink.
        from headwater.spark.writes.stream_writer import stream_writer

        return stream_writer(self.options, schema)
