"""Exactly-once writes from many tasks: each task stages its part invisibly, and one request publishes all parts.

A task's writer is a transactional producer that never ends its transaction. It returns its identity to the driver of
the job, and the driver has the broker publish all writers of a batch (PublishBatch, an API of Headwater alone). The
broker commits them and remembers the batch id in one atomic step.
"""

import re
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from headwater.client.cluster import Cluster
from headwater.client.coordinator import TransactionCoordinator
from headwater.client.delivery import ACKS_ALL, DeliveredBatch, Delivery, EncodedBatch, ProducerIdentity
from headwater.client.errors import ClientError, UnsupportedApi
from headwater.client.transactions.admin import TransactionAdmin
from headwater.endpoint import Endpoint
from headwater.errors import ErrorCode
from headwater.ids import TopicPartition, application_of, staging_id
from headwater.protocol.batches.compression import Codec
from headwater.protocol.batches.records import Record
from headwater.protocol.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headwater.protocol.messages.transactions.publish_batch import (
    PublishBatchRequest,
    PublishBatchResponse,
    PublishedWriter,
)

# The default of the broker's transaction.max.timeout.ms, the longest that it allows.
STAGING_TIMEOUT_MS = 900_000
# Far below a broker's limit (socket.request.max.bytes), and large enough to amortize the cost of a request.
REQUEST_BYTES_MAX = 8 * 1024 * 1024

_FENCED = frozenset(
    {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
)
_ABORTED_BATCH_ID = 0


class WriterFenced(ClientError):
    """Another writer has taken over this writer's transactional id, or its transaction has ended without it. What it
    staged will never be visible."""

    code = ErrorCode.PRODUCER_FENCED


class OutdatedBatch(ClientError):
    """The application has published a later batch already."""

    code = ErrorCode.INVALID_UPDATE_VERSION


class StagedWriter(NamedTuple):
    """Identifies a writer that has staged its part: the argument of `publish`."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class PublishResult(NamedTuple):
    """`is_replay`: the batch had been published before, so that what was staged for it again is aborted. A retry after
    a lost answer also counts as a replay."""

    is_replay: bool
    # The last batch that the application has published; None if there is none.
    published_batch_id: int | None


class StagingWriter:
    """Writes under `transactional_id`, which `staging_id` builds from the ids of an application and of a task.

    A later writer with the same id fences this one and aborts what it staged. The broker does so, too, `timeout_ms`
    after the first record. After an error the writer cannot be used, and must not be published.
    """

    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str,
        timeout_ms: int = STAGING_TIMEOUT_MS,
        *,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        on_delivered: Callable[[DeliveredBatch], None] | None = None,
    ) -> None:
        self._cluster = cluster
        self._coordinator = TransactionCoordinator(cluster, transactional_id)
        self._timeout_ms = timeout_ms
        self._failure: ClientError | None = None
        self._staged: StagedWriter | None = None
        self._delivery = Delivery(
            cluster,
            acks=ACKS_ALL,
            idempotent=True,
            codec=codec,
            level=level,
            timeout_ms=cluster.timeout_ms,
            on_delivered=on_delivered,
            transactional_id=transactional_id,
            new_identity=self._initialize,
        )

    @property
    def identity(self) -> StagedWriter | None:
        """The identity to publish; None if nothing was written, because there is nothing to publish then."""
        return self._staged

    def write(self, batches: Iterable[EncodedBatch]) -> None:
        """Send encoded batches, and return without waiting for the answers. The writer takes ownership of them."""
        with self._checked():
            for request in in_requests(batches):
                self._delivery.make_room()
                self._delivery.deliver_encoded(request)

    def write_records(self, partition: TopicPartition, records: Sequence[Record]) -> None:
        """Send records as one batch. Their offsets must count from 0."""
        if not records:
            return
        with self._checked():
            self._delivery.make_room()
            self._delivery.deliver([(partition, records)])

    def flush(self) -> StagedWriter | None:
        """Wait until everything written is staged. From then on it may be published."""
        with self._checked():
            self._delivery.drain()
        return self._staged

    def abort(self) -> None:
        """Abort what was staged; allowed also after an error. Otherwise read_committed consumers would wait behind it
        until the time-out, or until the application's next batch."""
        self._failure = self._failure or ClientError(f"{self._name} was aborted")
        if self._staged is not None:
            application_id = application_of(self._coordinator.transactional_id)
            publish(self._cluster, application_id, _ABORTED_BATCH_ID, [self._staged], committed=False)

    @property
    def _name(self) -> str:
        return f"the staging writer {self._coordinator.transactional_id!r}"

    def _initialize(self) -> ProducerIdentity:
        """Get a producer id and epoch. The coordinator first aborts a transaction that the id left open, and this call
        waits for that."""

        def read(response: InitProducerIdResponse) -> ProducerIdentity:
            self._coordinator.check(response.error_code)
            return ProducerIdentity(response.producer_id, response.producer_epoch)

        transactional_id = self._coordinator.transactional_id
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=self._timeout_ms)
        identity = self._coordinator.ask(request, InitProducerIdResponse, read)
        self._staged = StagedWriter(transactional_id, identity.producer_id, identity.producer_epoch)
        return identity

    @contextmanager
    def _checked(self) -> Generator[None]:
        if self._failure is not None:
            raise self._failure
        try:
            yield
        except ClientError as error:
            if error.code in _FENCED:
                self._failure = WriterFenced(
                    f"{self._name} has lost its place: a later attempt of its task took it, its batch was published "
                    f"without it, or it was open for longer than {self._timeout_ms} ms ({error})"
                )
                raise self._failure from error
            self._failure = error
            raise


def publish(
    cluster: Cluster, application_id: str, batch_id: int, writers: Iterable[StagedWriter], *, committed: bool = True
) -> PublishResult:
    """Commit what all `writers` staged, atomically, and have the broker remember the batch id. With `committed=False`,
    abort what they staged.

    The call is idempotent: a batch is published once, however often it is repeated. If a writer's transaction is gone,
    for example timed out, that is an error and nothing is published. So is a batch that is older than the last
    published one (OutdatedBatch).
    """
    coordinator = TransactionCoordinator(cluster, application_id)

    def read(response: PublishBatchResponse) -> PublishResult:
        if response.error_code == ErrorCode.INVALID_UPDATE_VERSION:
            raise OutdatedBatch(response.error_message or f"{application_id!r} published a later batch than {batch_id}")
        coordinator.check(response.error_code, response.error_message)
        last_id = response.published_batch_id
        return PublishResult(response.is_replay, last_id if last_id >= 0 else None)

    request = PublishBatchRequest(
        application_id=application_id,
        batch_id=batch_id,
        committed=committed,
        writers=[
            PublishedWriter(
                transactional_id=writer.transactional_id,
                producer_id=writer.producer_id,
                producer_epoch=writer.producer_epoch,
            )
            for writer in writers
        ],
    )
    return coordinator.ask(request, PublishBatchResponse, read)


def abort_all(cluster: Cluster, application_id: str) -> None:
    """Abort what any writer of the application has staged, including writers that the driver does not know of."""
    transactions = TransactionAdmin(cluster)
    pattern = re.escape(staging_id(application_id, "")) + ".*"
    found = transactions.list_transactions(states=["Ongoing"], pattern=pattern)
    described = [transactions.describe_transaction(each.transactional_id) for each in found]
    writers = [StagedWriter(each.transactional_id, each.producer_id, each.producer_epoch) for each in described]
    if writers:
        publish(cluster, application_id, _ABORTED_BATCH_ID, writers, committed=False)


def applications(cluster: Cluster, prefix: str) -> set[str]:
    """Return the ids with this prefix under which an application has published a batch that the broker remembers."""
    listed = TransactionAdmin(cluster).list_transactions(pattern=re.escape(prefix) + ".*")
    return {each.transactional_id for each in listed if application_of(each.transactional_id) == each.transactional_id}


def supports_publish(cluster: Cluster) -> bool:
    """Whether all brokers offer PublishBatch. Apache Kafka's do not."""

    def ask() -> bool:
        for broker in cluster.metadata().brokers:
            try:
                cluster.connection(Endpoint(broker.host, broker.port)).version(PublishBatchRequest)
            except UnsupportedApi:
                return False
        return True

    return cluster.retrying(ask)


def in_requests(batches: Iterable[EncodedBatch]) -> Generator[list[EncodedBatch]]:
    """Group batches into requests. A request has at most one batch per partition and about REQUEST_BYTES_MAX bytes."""
    gathered: dict[TopicPartition, EncodedBatch] = {}
    byte_count = 0
    for each in batches:
        if not each.record_count:
            continue
        if gathered and (each.partition in gathered or byte_count + len(each.payload) > REQUEST_BYTES_MAX):
            yield list(gathered.values())
            gathered, byte_count = {}, 0
        gathered[each.partition] = each
        byte_count += len(each.payload)
    if gathered:
        yield list(gathered.values())
