"""A task's part of a write, and the driver's commit.

For exactly-once delivery a task stages its rows in a transaction, which the commit publishes. Otherwise its rows are
visible at once.
"""

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
from headwater.spark.writes.redrive_rows import RedriveRows
from headwater.spark.writes.row_encoder import TopicRowEncoder

_log = logging.getLogger(__name__)

# Tasks of a failed job run on until they notice. After `spark.python.task.killTimeout`, two seconds, Spark kills them.
_LAST_TASK_MS = 3_000
_ABORT_INTERVAL_S = 0.2

T = TypeVar("T")


@dataclass(frozen=True)
class TaskWritten(WriterCommitMessage):
    """A task's message to the driver. `staged` is None if there is nothing to publish."""

    application_id: str | None = None
    staged: StagedWriter | None = None


class ApplicationTaken(HeadwaterError):
    """Another query has published under the same application id."""


class DeliveryUnsupported(HeadwaterError):
    """The broker cannot publish what several tasks staged."""


def write_task(
    rows: Iterable[pa.RecordBatch], options: WriteOptions, application_id: str | None, *, is_streaming: bool = False
) -> TaskWritten:
    """Stage the rows for the application. With `application_id` None they are visible at once, and a retry repeats
    them."""
    cluster = options.broker_address.cluster()
    if is_streaming:
        # A query that runs for months survives restarts of its broker, but new worker processes must wait for it.
        _retry_connecting(cluster, cluster.metadata)
    encoding = TopicRowEncoder(cluster, options)
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
        if options.redrives:
            letters = RedriveRows(cluster, options)
            writer.write(encoding.encode(letters.records(rows)))
            for partition, records in letters.entries():
                writer.write_records(partition, records)
        else:
            writer.write(encoding.encode(rows))
        return TaskWritten(application_id, writer.flush())
    except BaseException:
        _abort_staged(writer)
        raise


def publish_tasks(messages: Iterable[WriterCommitMessage | None], options: WriteOptions, batch_id: int) -> None:
    """The driver's commit: make all rows that the tasks staged visible. Idempotent: a repeated commit has no effect."""
    cluster = options.broker_address.cluster()
    for application_id, staged in _by_application(messages).items():
        published = _retry_connecting(cluster, partial(publish, cluster, application_id, batch_id, staged))
        if published.is_replay:
            _log.warning("batch %d of %r had been published before: it is not written again", batch_id, application_id)


def publish_query(messages: Sequence[WriterCommitMessage | None], options: WriteOptions, batch_id: int) -> None:
    """Like `publish_tasks`, but refuse an application id under which another query has published."""
    cluster = options.broker_address.cluster()
    for application_id in _by_application(messages) if options.application_id else ():
        prefix = query_application_id(options.application_id, "")
        others = _retry_connecting(cluster, partial(applications, cluster, prefix)) - {application_id}
        if others:
            raise ApplicationTaken(
                f"another query has written as application {options.application_id!r}, or this one did before its "
                f"checkpoint was removed (query {min(others).removeprefix(prefix)}): what it wrote would be there "
                "twice. Choose another 'applicationId'"
            )
    publish_tasks(messages, options, batch_id)


def query_application_id(application_id: str | None, query_id: str) -> str:
    """The id under which the broker remembers a query's batches. It contains the query's id, because each query counts
    its batches from 0, and again after its checkpoint was removed. Under the user's application id alone, the broker
    would take one query's batches for replays of another's."""
    return query_id if application_id is None else f"{application_id}::{query_id}"


def abort_tasks(messages: Iterable[WriterCommitMessage | None], options: WriteOptions, batch_id: int) -> None:
    """Best effort: transactions left open are aborted when the application writes again, or when they time out."""
    for application_id, staged in _by_application(messages).items():
        try:
            publish(options.broker_address.cluster(), application_id, batch_id, staged, committed=False)
        except HeadwaterError as error:
            _log.warning("what was staged for batch %d of %r could not be aborted: %s", batch_id, application_id, error)


def abort_left_behind(
    messages: Iterable[WriterCommitMessage | None], application_id: str, options: WriteOptions
) -> None:
    """Best effort: abort the transactions of tasks that were killed before they could report, or that still run.

    No later write under this application id would abort them, and until they time out they block readers of committed
    records.
    """
    if all(message is not None for message in messages):
        return
    cluster = options.broker_address.cluster()
    last_ms = cluster.clock.monotonic_ms() + _LAST_TASK_MS
    try:
        if not supports_publish(cluster):
            return
        abort_all(cluster, application_id)
        while cluster.clock.monotonic_ms() < last_ms:
            cluster.sleep(_ABORT_INTERVAL_S)
            abort_all(cluster, application_id)
    except HeadwaterError as error:
        _log.warning("what tasks of %r have left behind could not be aborted: %s", application_id, error)


def _by_application(messages: Iterable[WriterCommitMessage | None]) -> dict[str, list[StagedWriter]]:
    found: dict[str, list[StagedWriter]] = {}
    for message in messages:
        if isinstance(message, TaskWritten) and message.application_id is not None and message.staged is not None:
            found.setdefault(message.application_id, []).append(message.staged)
    return found


def _retry_connecting(cluster: Cluster, ask: Callable[[], T]) -> T:
    """Retry while the broker is unreachable. A client gives up if it never reached any broker, but here other processes
    of the query have, so the broker is probably restarting."""
    backoff = cluster.backoff(cluster.timeout_ms)
    while True:
        try:
            return ask()
        except ConnectionLost as error:
            backoff.pause(error)


def _slot() -> str:
    """A name for this task that is unique among the application's concurrent writers. Later batches reuse it, which
    limits the number of producers that the broker must remember."""
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


def _write(cluster: Cluster, encoding: TopicRowEncoder, rows: Iterable[pa.RecordBatch], options: WriteOptions) -> None:
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


def _abort_staged(writer: StagingWriter) -> None:
    try:
        writer.abort()
    except HeadwaterError as error:
        _log.warning("what this task staged could not be aborted, and will be in time: %s", error)
