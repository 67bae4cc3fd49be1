"""Transactions: records of several topics, and what becomes of records received from queues, all or nothing.

    producer = TransactionalProducer(cluster, "billing-1")
    queue = QueueConsumer(cluster, "billing", ["orders"])
    for record in queue.receive(10, wait_ms=5000):
        with producer.transaction() as transaction:
            transaction.send("invoices", invoice_for(record.value))
            transaction.ack(queue, record.receipt)

If the program dies between two lines, the invoice is never visible and the order is delivered again.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self

from headwater.client.cluster import Cluster
from headwater.client.coordinator import GroupCoordinator, TransactionCoordinator
from headwater.client.delivery import DeliveredBatch, ProducerIdentity
from headwater.client.errors import ClientError, Refused, UnsupportedApi
from headwater.client.groups.queue_consumer import NotSettled, QueueConsumer
from headwater.client.producer import Producer
from headwater.errors import ErrorCode
from headwater.protocol.batches.compression import Codec
from headwater.protocol.batches.records import Headers
from headwater.protocol.messages.transactions.end_txn import EndTxnRequest, EndTxnResponse
from headwater.protocol.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headwater.protocol.messages.transactions.txn_settle_records import (
    TxnSettlement,
    TxnSettleRecordsRequest,
    TxnSettleRecordsResponse,
)

# As Kafka's clients (transaction.timeout.ms).
TIMEOUT_MS = 60_000

# The version from which on partitions join a transaction by themselves and each end raises the epoch (KIP-890).
_END_VERSION = 5
_NOBODY = ProducerIdentity(-1, -1)
_ACCEPT, _REJECT = 1, 3
_FENCED = frozenset(
    {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
)


class ProducerFenced(ClientError):
    """The transaction is aborted: it was open for longer than its time-out, or a later producer uses the transactional
    id. After a time-out the next transaction works, after a later producer none does."""

    code = ErrorCode.PRODUCER_FENCED


class TransactionalProducer:
    """One transaction after the other. A later producer with the same transactional id aborts what this one left open,
    and fences it. The broker aborts a transaction that is open for `timeout_ms`."""

    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str,
        *,
        timeout_ms: int = TIMEOUT_MS,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        create_topics: bool = True,
        on_delivered: Callable[[DeliveredBatch], None] | None = None,
    ) -> None:
        self.cluster = cluster
        self.coordinator = TransactionCoordinator(cluster, transactional_id)
        self._timeout_ms = timeout_ms
        self._codec = codec
        self._level = level
        self._create_topics = create_topics
        self._on_delivered = on_delivered
        self._open: Transaction | None = None
        # None if it is not known whether the identity still counts.
        self._identity: ProducerIdentity | None = None
        self._last_identity = _NOBODY
        self._initialize()

    def transaction(self) -> "Transaction":
        """Begin a transaction. The one before it must have ended."""
        if self._open is not None and self._open.is_open:
            raise ClientError(f"the transaction before it is open: commit or abort it first ({self._name})")
        self._open = Transaction(self)
        return self._open

    # -- for the transaction

    @property
    def identity(self) -> ProducerIdentity:
        return self._identity or self._initialize()

    def new_records(self) -> Producer:
        """Writes the records of one transaction."""
        return Producer(
            self.cluster,
            codec=self._codec,
            level=self._level,
            create_topics=self._create_topics,
            on_delivered=self._on_delivered,
            transactional_id=self.coordinator.transactional_id,
            new_identity=lambda: self.identity,
        )

    def _initialize(self) -> ProducerIdentity:
        """Get a producer id and epoch. A transaction that the id left open is aborted first. A producer that had an
        identity already is refused if a later one has taken the id over (KIP-360)."""
        if self.cluster.retrying(self._end_version) < _END_VERSION:
            raise UnsupportedApi(f"{self._name} needs brokers that know transactions of KIP-890: EndTxn {_END_VERSION}")
        request = InitProducerIdRequest(
            transactional_id=self.coordinator.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=self._last_identity.producer_id,
            producer_epoch=self._last_identity.producer_epoch,
        )

        def read(response: InitProducerIdResponse) -> ProducerIdentity:
            self.coordinator.check(response.error_code)
            return ProducerIdentity(response.producer_id, response.producer_epoch)

        with self.fencing():
            return self._set(self.coordinator.ask(request, InitProducerIdResponse, read))

    def end(self, *, is_committed: bool) -> None:
        """End the transaction; the broker gives the identity for the next one. May be repeated after a lost answer."""
        identity = self.identity
        request = EndTxnRequest(
            transactional_id=self.coordinator.transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            committed=is_committed,
        )

        def read(response: EndTxnResponse) -> ProducerIdentity:
            self.coordinator.check(response.error_code)
            return ProducerIdentity(response.producer_id, response.producer_epoch)

        with self.fencing():
            self._set(self.coordinator.ask(request, EndTxnResponse, read))

    def forget(self) -> None:
        """It is not known whether the transaction is open: the next one begins with a new epoch, which ends it."""
        self._identity = None

    def _set(self, identity: ProducerIdentity) -> ProducerIdentity:
        self._identity = self._last_identity = identity
        return identity

    @contextmanager
    def fencing(self) -> Generator[None]:
        try:
            yield
        except ClientError as error:
            if error.code not in _FENCED or isinstance(error, ProducerFenced):
                raise
            raise ProducerFenced(
                f"{self._name} has lost its place: its transaction was open for longer than {self._timeout_ms} ms, "
                f"or a later producer has its id ({error})"
            ) from error

    @property
    def _name(self) -> str:
        return f"the transactional producer {self.coordinator.transactional_id!r}"

    def _end_version(self) -> int:
        return self.cluster.connection(self.coordinator.node.endpoint, is_dedicated=True).version(EndTxnRequest)


class Transaction:
    """As a context manager it is committed at the end of the block, and aborted by an exception.

    After an error it can only be aborted: what was said until then belongs together with what failed.
    """

    def __init__(self, producer: TransactionalProducer) -> None:
        self.is_open = True
        self._producer = producer
        self._records = producer.new_records()
        # Whether the broker may know of the transaction.
        self._is_begun = False
        self._failure: ClientError | None = None

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """As `Producer.send`. Consumers of committed records see it once the transaction is committed."""
        with self._checked():
            self._is_begun = True
            self._records.send(topic, value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms)

    def ack(self, queue: QueueConsumer, *receipts: str) -> None:
        """The records are done with, if the transaction is committed. If it is aborted they are delivered again.

        Until it ends their locks do not run out. Raises NotSettled if some receipts hold their records no longer.
        """
        self._settle(queue.group_id, receipts, _ACCEPT)

    def reject(self, queue: QueueConsumer, *receipts: str) -> None:
        """The records are hopeless: they leave the queue, if the transaction is committed."""
        self._settle(queue.group_id, receipts, _REJECT)

    def commit(self) -> None:
        """All of it counts, or none does: if this raises an error that `is_retriable`, nobody knows which."""
        with self._checked():
            self._records.flush()
            self._end(is_committed=True)

    def abort(self) -> None:
        """None of it counts: its records are never seen, and what it settled is delivered again."""
        if not self.is_open:
            raise self._ended()
        # Records that are still on their way are refused when they arrive, because the end raises the epoch.
        self._end(is_committed=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.is_open:
            return
        if kind is not None:
            # The caller's error says more. What cannot be aborted now ends with the next transaction or the time-out.
            with suppress(ClientError):
                self.abort()
            return
        try:
            self.commit()
        except ClientError:
            if self.is_open:
                with suppress(ClientError):
                    self.abort()
            raise

    def _settle(self, group_id: str, receipts: Sequence[str], kind: int) -> None:
        with self._checked():
            if not receipts:
                return
            self._is_begun = True
            identity = self._producer.identity
            coordinator = GroupCoordinator(self._producer.cluster, group_id)
            request = TxnSettleRecordsRequest(
                transactional_id=self._producer.coordinator.transactional_id,
                producer_id=identity.producer_id,
                producer_epoch=identity.producer_epoch,
                group_id=group_id,
                settlements=[TxnSettlement(receipt=each, type=kind) for each in receipts],
            )

            def read(response: TxnSettleRecordsResponse) -> dict[str, Refused]:
                coordinator.check(response.error_code, response.error_message)
                return {
                    receipt: Refused(result.error_code, "receipt", result.error_message)
                    for receipt, result in zip(receipts, response.results, strict=True)
                    if result.error_code != ErrorCode.NONE
                }

            # A repeated request changes nothing, so that a lost answer does no harm.
            refusals = coordinator.ask(request, TxnSettleRecordsResponse, read)
            if refusals:
                raise NotSettled(refusals, len(receipts))

    def _end(self, *, is_committed: bool) -> None:
        self.is_open = False
        if not self._is_begun:
            return
        try:
            self._producer.end(is_committed=is_committed)
        except ClientError:
            self._producer.forget()
            raise

    @contextmanager
    def _checked(self) -> Generator[None]:
        if not self.is_open:
            raise self._ended()
        if self._failure is not None:
            raise ClientError(f"the transaction can only be aborted: {self._failure}") from self._failure
        try:
            with self._producer.fencing():
                yield
        except ProducerFenced:
            # The broker has ended it.
            self.is_open = False
            self._producer.forget()
            raise
        except ClientError as error:
            self._failure = error
            raise

    def _ended(self) -> ClientError:
        return ClientError("the transaction has ended: begin another one with TransactionalProducer.transaction()")
