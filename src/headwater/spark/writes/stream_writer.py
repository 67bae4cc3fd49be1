"""A streaming write: the broker publishes each micro-batch once, and remembers its number to recognise replays."""

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from headwater.spark.errors import sentence_only
from headwater.spark.options import client_settings
from headwater.spark.options.write_options import WriteOptions, write_options
from headwater.spark.task import query_id
from headwater.spark.writes.contract import check_columns
from headwater.spark.writes.task_writer import TaskWritten, abort_tasks, publish_query, query_application_id, write_task


def stream_writer(given: Mapping[str, str], schema: StructType) -> DataSourceStreamWriter:
    options = write_options(given, is_streaming=True)
    client_settings.warn_of_writes(given)
    check_columns(schema, options)
    return HeadwaterStreamWriter(options)


class HeadwaterStreamWriter(DataSourceStreamArrowWriter):
    """Spark creates a new instance for each commit, so the tasks' messages must contain all that the commit needs."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    @sentence_only()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:
        application_id = query_application_id(self._options.application_id, _query_id())
        return write_task(iterator, self._options, application_id, is_streaming=True)

    @sentence_only()
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        publish_query(messages, self._options, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        abort_tasks(messages, self._options, batchId)


def _query_id() -> str:
    context = TaskContext.get()
    found = None if context is None else query_id(context)
    assert found, "a streaming write runs in a task of a query"
    return found
