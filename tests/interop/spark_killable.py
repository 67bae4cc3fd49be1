"""The sink under names of its own, with places where a test has somebody killed.

A test plants a file named for the place, which says whom: a process, or minus a group of them, or 0 for whoever comes
there. The first to come takes the file away and kills.
"""

import os
import signal
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from headwater.client.connection import BrokerConnection
from headwater.client.transactions.staging import StagedWriter
from headwater.protocol.messages.transactions.publish_batch import PublishBatchRequest
from headwater.spark.source import HeadwaterDataSource
from headwater.spark.writes.stream_writer import HeadwaterStreamWriter, stream_writer
from headwater.spark.writes.task_writer import TaskWritten

PLACES_VARIABLE = "KILLABLE_PLACES"

TASK_BEGUN = "task-begun"
TASK_STAGED = "task-staged"
COMMIT_BEGUN = "commit-begun"
COMMIT_SENT = "commit-sent"
COMMIT_DONE = "commit-done"
PLACES = (TASK_BEGUN, TASK_STAGED, COMMIT_BEGUN, COMMIT_SENT, COMMIT_DONE)
# There nobody is killed, but Spark is told that the commit failed.
COMMIT_DENIED = "commit-denied"
# There nobody is killed, but the task that comes waits until another attempt of it has staged the same rows.
TASK_SLOW = "task-slow"

_POLL_S = 0.02
_DEADLINE_S = 60


class KillableSource(HeadwaterDataSource):
    @classmethod
    def name(cls) -> str:
        return "killable"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        writer = stream_writer(self.options, schema)
        assert isinstance(writer, HeadwaterStreamWriter)
        return KillableWriter(writer._options)


class KillableWriter(HeadwaterStreamWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:
        written = super().write(_watched(iterator))
        if written.staged is not None:
            reach(TASK_STAGED)
            _note_staged(written.staged)
        return written

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        if not any(isinstance(each, TaskWritten) and each.staged for each in messages):
            return
        reach(COMMIT_BEGUN)
        with _no_answer_awaited():
            super().commit(messages, batchId)
        reach(COMMIT_DONE)
        if taken(COMMIT_DENIED) is not None:
            raise RuntimeError("the commit is said to have failed")


def reach(place: str) -> None:
    target = taken(place)
    if target is not None:
        os.kill(target or os.getpid(), signal.SIGKILL)


def taken(place: str) -> int | None:
    path = _places() / place
    try:
        target = int(path.read_text())
        path.unlink()
    except FileNotFoundError:
        return None
    return target


def staged_directory() -> Path:
    """Which attempts of which tasks have staged what they had to write."""
    return _places() / "staged"


def _note_staged(staged: StagedWriter) -> None:
    context = TaskContext.get()
    assert context is not None
    directory = staged_directory() / f"{context.stageId()}-{context.partitionId()}"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / str(context.attemptNumber())).write_text(staged.transactional_id)
    if taken(TASK_SLOW) is None:
        return
    deadline = time.monotonic() + _DEADLINE_S
    while len(list(directory.iterdir())) < 2 and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def _places() -> Path:
    return Path(os.environ[PLACES_VARIABLE])


def _watched(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for each in rows:
        reach(TASK_BEGUN)
        yield each


@contextmanager
def _no_answer_awaited() -> Generator[None]:
    """Whoever is to be killed at COMMIT_SENT is killed when the request is on its way."""
    send = BrokerConnection.send

    def deadly(connection: BrokerConnection, request: Any, *arguments: Any, **named: Any) -> Any:
        sent = send(connection, request, *arguments, **named)
        if isinstance(request, PublishBatchRequest):
            reach(COMMIT_SENT)
        return sent

    replaced: Any = deadly
    BrokerConnection.send = replaced
    try:
        yield
    finally:
        BrokerConnection.send = send
