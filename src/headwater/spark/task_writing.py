"""A task's part of a write: its rows staged invisibly, or written at once where nothing is to be exactly once."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from headwater.client.cluster import Cluster
from headwater.client.delivery import ACKS_ALL, Delivery
from headwater.client.staging import Staged, StagingWriter, in_requests, publish, supports_publish
from headwater.errors import HeadwaterError
from headwater.ids import staging_id
from headwater.spark.row_encoding import RowEncoding
from headwater.spark.write_options import AT_LEAST_ONCE, EXACTLY_ONCE, WriteOptions

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TaskWritten(WriterCommitMessage):
    """What a task tells the driver. `staged` is None where there is nothing to publish."""

    application_id: str | None = None
    staged: Staged | None = None


class DeliveryUnsupported(HeadwaterError):
    """The broker cannot publish what several tasks staged."""


def write_task(rows: Iterable[pa.RecordBatch], options: WriteOptions, application_id: str | None) -> TaskWritten:
    """`application_id` None: what is written is seen at once, and after a retry seen again."""
    cluster = options.connecting.cluster()
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
    for application_id, staged in _by_application(messages).items():
        published = publish(options.connecting.cluster(), application_id, batch_id, staged)
        if published.is_replay:
            _log.warning("batch %d of %r had been published before: it is not written again", batch_id, application_id)


def abort_tasks(messages: Iterable[WriterCommitMessage | None], options: WriteOptions, batch_id: int) -> None:
    """Best effort: what is not aborted now is when the application writes again, or in time."""
    for application_id, staged in _by_application(messages).items():
        try:
            publish(options.connecting.cluster(), application_id, batch_id, staged, committed=False)
        except HeadwaterError as error:
            _log.warning("what was staged for batch %d of %r could not be aborted: %s", batch_id, application_id, error)


def _by_application(messages: Iterable[WriterCommitMessage | None]) -> dict[str, list[Staged]]:
    applications: dict[str, list[Staged]] = {}
    for message in messages:
        if isinstance(message, TaskWritten) and message.application_id is not None and message.staged is not None:
            applications.setdefault(message.application_id, []).append(message.staged)
    return applications


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
