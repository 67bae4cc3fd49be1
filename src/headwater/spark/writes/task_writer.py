"""A task's part of a write: its rows staged invisibly, or written at once where nothing is to be exactly once."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from headwater.client.cluster import Cluster
from headwater.client.delivery import ACKS_ALL, Delivery
from headwater.client.errors import ConnectionLost
from headwater.client.transactions.staging import (
    StagedWriter,
    StagingWriter,
    abort_all,
    applications,
    in_requests,
    publish,
    supports_publish,
)
from headwater.errors import HeadwaterError
from headwater.ids import staging_id
from headwater.spark.options.write_options import AT_LEAST_ONCE, EXACTLY_ONCE, WriteOptions
from headwater.spark.writes.row_encoder import RowEncoding

_log = logging.getLogger(__name__)

# Tasks of a failed job go on until they notice; after `spark.python.task.killTimeout`, two seconds, they are killed.
_LAST_TASK_MS = 3_000
_LOOK_AGAIN_S = 0.2

T = TypeVar("T")


@dataclass(frozen=True)
class TaskWritten(WriterCommitMessage):
    """What a task tells the driver. `staged` is None where there is nothing to publish."""

    application_id: str | None = None
    staged: StagedWriter | None = None


class ApplicationTaken(HeadwaterError):
    """Another query has published under the same application id."""


class DeliveryUnsupported(HeadwaterError):
    """The broker cannot publish what several tasks staged."""


def write_task(
    rows: Iterable[pa.RecordBatch], options: WriteOptions, application_id: str | None, *, is_streaming: bool = False
) -> TaskWritten:
    """`application_id` None: what is written is seen at once, and after a retry seen again."""
    cluster = options.connecting.cluster()
    if is_streaming:
        # A query that runs for months outlives restarts of its broker, and its tasks may be in new processes.
        _patiently(cluster, cluster.metadata)
    encoding = RowEncoding(cluster, options)
    if application_id is None or not _is_exactly_once(cluster, options):
        _write(cluster, encoding, rows, options)
        return TaskWritten()
    writer = StagingWriter(
        cluster,
        staging_id(application_id, _slot()),
        options.staging_timeout_ms,
        codec=options.codec,
    )
    try:
        writer.write(encoding.encode(rows))
        return TaskWritten(application_id, writer.flush())
    except BaseException:
        _give_up(writer)
        raise


def publish_tasks(messages: Iterable[WriterCommitMessage | None], options: WriteOptions, batch_id: int) -> None:
    """The driver's commit: everything that the tasks staged becomes visible, once, however often this is asked."""
    cluster = options.connecting.cluster()
    for application_id, staged in _by_application(messages).items():
        published = _patiently(cluster, partial(publish, cluster, application_id, batch_id, staged))
        if published.is_replay:
            _log.warning("batch %d of %r had been published before: it is not written again", batch_id, application_id)


def publish_query(messages: Sequence[WriterCommitMessage | None], options: WriteOptions, batch_id: int) -> None:
    """As `publish_tasks`, for an application that is the user's and the query's: `query_application`."""
    cluster = options.connecting.cluster()
    for application_id in _by_application(messages) if options.application_id else ():
        prefix = query_application(options.application_id, "")
        others = _patiently(cluster, partial(applications, cluster, prefix)) - {application_id}
        if others:
            raise ApplicationTaken(
                f"another query has written as application {options.application_id!r}, or this one did before its "
                f"checkpoint was removed (query {min(others).removeprefix(prefix)}): what it wrote would be there "
                "twice. Choose another 'applicationId'"
            )
    publish_tasks(messages, options, batch_id)


def query_application(application_id: str | None, query_id: str) -> str:
    """Batches are counted by each query for itself, and anew where its checkpoint is removed. Were they remembered by
    the user's application id alone, those of one query would be taken for replays of another's."""
    return query_id if application_id is None else f"{application_id}::{query_id}"


def abort_tasks(messages: Iterable[WriterCommitMessage | None], options: WriteOptions, batch_id: int) -> None:
    """Best effort: what is not aborted now is when the application writes again, or in time."""
    for application_id, staged in _by_application(messages).items():
        try:
            publish(options.connecting.cluster(), application_id, batch_id, staged, committed=False)
        except HeadwaterError as error:
            _log.warning("what was staged for batch %d of %r could not be aborted: %s", batch_id, application_id, error)


def abort_left_behind(
    messages: Iterable[WriterCommitMessage | None], application_id: str, options: WriteOptions
) -> None:
    """Best effort, for what was staged by tasks that were killed and have told nothing, and by those that still run:
    nobody else writes as this application, and readers of committed records would wait for the time-out."""
    if all(message is not None for message in messages):
        return
    cluster = options.connecting.cluster()
    last_ms = cluster.clock.monotonic_ms() + _LAST_TASK_MS
    try:
        if not supports_publish(cluster):
            return
        abort_all(cluster, application_id)
        while cluster.clock.monotonic_ms() < last_ms:
            cluster.sleep(_LOOK_AGAIN_S)
            abort_all(cluster, application_id)
    except HeadwaterError as error:
        _log.warning("what tasks of %r have left behind could not be aborted: %s", application_id, error)


def _by_application(messages: Iterable[WriterCommitMessage | None]) -> dict[str, list[StagedWriter]]:
    found: dict[str, list[StagedWriter]] = {}
    for message in messages:
        if isinstance(message, TaskWritten) and message.application_id is not None and message.staged is not None:
            found.setdefault(message.application_id, []).append(message.staged)
    return found


def _patiently(cluster: Cluster, ask: Callable[[], T]) -> T:
    """In a new process nobody has reached a broker yet, but others of the query have: one that is not there now is
    being started again, and worth waiting for."""
    backoff = cluster.backoff(cluster.timeout_ms)
    while True:
        try:
            return ask()
        except ConnectionLost as error:
            backoff.pause(error)


def _slot() -> str:
    """One of the writers that an application has at the same time. Slots are used again from batch to batch, which
    keeps the producers few that a broker has to remember."""
    context = TaskContext.get()
    return "0-0" if context is None else f"{context.partitionId()}-{context.attemptNumber()}"


def _is_exactly_once(cluster: Cluster, options: WriteOptions) -> bool:
    if options.delivery == AT_LEAST_ONCE or options.acks != ACKS_ALL:
        return False
    if supports_publish(cluster):
        return True
    if options.delivery == EXACTLY_ONCE:
        raise DeliveryUnsupported(
            "the brokers cannot publish a batch exactly once, as Headwater's can: set the option 'delivery' to "
            f"'{AT_LEAST_ONCE}'"
        )
    _log.warning("the brokers cannot publish a batch exactly once, as Headwater's can: delivery is %s", AT_LEAST_ONCE)
    return False


def _write(cluster: Cluster, encoding: RowEncoding, rows: Iterable[pa.RecordBatch], options: WriteOptions) -> None:
    delivery = Delivery(
        cluster,
        acks=options.acks,
        idempotent=options.acks == ACKS_ALL,
        codec=options.codec,
        level=None,
        timeout_ms=cluster.timeout_ms,
        on_delivered=None,
    )
    for request in in_requests(encoding.encode(rows)):
        delivery.make_room()
        delivery.deliver_encoded(request)
    delivery.drain()


def _give_up(writer: StagingWriter) -> None:
    try:
        writer.abort()
    except HeadwaterError as error:
        _log.warning("what this task staged could not be aborted, and will be in time: %s", error)
