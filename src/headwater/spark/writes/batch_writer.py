"""A batch write: its tasks stage their rows, and the job's commit publishes all of them at once."""

import uuid
from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from headwater.errors import ConfigError
from headwater.spark.errors import sentence_only
from headwater.spark.options import client_settings
from headwater.spark.options.write_options import WriteOptions, write_options
from headwater.spark.writes.contract import check_columns
from headwater.spark.writes.task_writer import TaskWritten, abort_left_behind, abort_tasks, publish_tasks, write_task


def batch_writer(given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> DataSourceWriter:
    if overwrite:
        raise ConfigError("a topic is a log, it cannot be overwritten: write with mode('append')")
    options = write_options(given, is_streaming=False)
    client_settings.warn_of_writes(given)
    check_columns(schema, options)
    return HeadwaterWriter(options)


class HeadwaterWriter(DataSourceArrowWriter):
    """Created once on the driver. Tasks and the commit get copies, so all of them use the same application id."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._application_id = options.application_id or f"headwater-spark-{uuid.uuid4()}"
        self._version = options.application_version or 0

    @sentence_only()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:
        return write_task(iterator, self._options, self._application_id)

    @sentence_only()
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        publish_tasks(messages, self._options, self._version)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        abort_tasks(messages, self._options, self._version)
        abort_left_behind(messages, self._application_id, self._options)
