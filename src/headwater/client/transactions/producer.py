"""A transactional producer: what it writes between two commits becomes visible as a whole, or not at all.

Its transactional id stands for one task. Whoever initializes a producer of this id takes the task over: the broker
aborts what an earlier producer left open, and refuses what it still sends.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from headwater.client.cluster import Cluster
from headwater.client.coordinator import TransactionCoordinator
from headwater.client.delivery import ACKS_ALL, Delivery, ProducerIdentity
from headwater.client.errors import ClientError, UnsupportedApi
from headwater.client.transactions.staging import FENCED, WriterFenced
from headwater.ids import TopicPartition
from headwater.protocol.batches import batch
from headwater.protocol.batches.compression import Codec
from headwater.protocol.batches.records import Record
from headwater.protocol.messages.transactions.end_txn import EndTxnRequest, EndTxnResponse
from headwater.protocol.messages.transactions.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

# As in Kafka's producer: transaction.timeout.ms.
TIMEOUT_MS = 60_000

# From this version on each end of a transaction raises the epoch, so that a repeated request is told from a new one,
# and partitions join a transaction by being written to (KIP-890).
_END_VERSION_MIN = 5


class TransactionalProducer:
    """Needs a broker with Kafka's transaction protocol 2. After an error nothing can be written until `abort` has
    succeeded. After WriterFenced another process is at work under this id: only `initialize` takes it over again."""

    def __init__(
        self, cluster: Cluster, transactional_id: str, *, timeout_ms: int = TIMEOUT_MS, codec: Codec = Codec.NONE
    ) -> None:
        self._cluster = cluster
        self._coordinator = TransactionCoordinator(cluster, transactional_id)
        self._timeout_ms = timeout_ms
        self._codec = codec
        self._identity: ProducerIdentity | None = None
        # Of the open transaction; None if there is none. Sequences begin at 0 in each.
        self._delivery: Delivery | None = None
        self._failure: ClientError | None = None

    def initialize(self) -> None:
        """Take the transactional id over, and wait until what an earlier producer left open is aborted, or committed if
        it had asked for that. The first write does so unless the caller has."""
        self._identity = self._initialized(None)
        self._delivery = self._failure = None

    def write(self, partition: TopicPartition, records: Sequence[Record]) -> None:
        """Send records as one batch, and return without waiting for the answer. Their offsets must count from 0."""
        if not records:
            return
        with self._checked():
            delivery = self._begun()
            delivery.make_room()
            delivery.deliver([(partition, records)])

    def flush(self) -> None:
        """Wait until everything written is acknowledged."""
        with self._checked():
            if self._delivery is not None:
                self._delivery.drain()

    def commit(self) -> None:
        """Have what was written since the last commit become visible, once all of it is written. The broker remembers
        the commit; readers see it a moment later, see `settle`."""
        self.flush()
        if self._delivery is None:
            return
        with self._checked():
            self._identity = self._coordinator.ask(self._commit_request(), EndTxnResponse, self._read_end)
        self._delivery = None

    def settle(self) -> None:
        """Wait until readers see everything committed."""
        if self._identity is not None and self._delivery is None:
            with self._checked():
                self._identity = self._initialized(self._identity)

    def abort(self) -> None:
        """Drop what was written since the last commit. Raises WriterFenced if another process has taken over."""
        if self._identity is None or (self._delivery is None and self._failure is None):
            return
        if isinstance(self._failure, WriterFenced):
            raise self._failure
        self._failure = None
        with self._checked():
            # Bound to the identity: who was taken over must not take the id back, for it knows no longer what was done.
            self._identity = self._initialized(self._identity)
        self._delivery = None

    @property
    def is_open(self) -> bool:
        """Whether something was written since the last commit."""
        return self._delivery is not None

    def _initialized(self, current: ProducerIdentity | None) -> ProducerIdentity:
        """Get the next epoch, or, without `current`, the id from whoever has it."""

        def read(response: InitProducerIdResponse) -> ProducerIdentity:
            self._coordinator.check(response.error_code)
            return ProducerIdentity(response.producer_id, response.producer_epoch)

        request = InitProducerIdRequest(
            transactional_id=self._coordinator.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=batch.NO_PRODUCER_ID if current is None else current.producer_id,
            producer_epoch=batch.NO_PRODUCER_EPOCH if current is None else current.producer_epoch,
        )
        return self._coordinator.ask(request, InitProducerIdResponse, read)

    def _begun(self) -> Delivery:
        if self._identity is None:
            self.initialize()
        if self._delivery is None:
            self._check_protocol()
            self._delivery = Delivery(
                self._cluster,
                acks=ACKS_ALL,
                idempotent=True,
                codec=self._codec,
                level=None,
                timeout_ms=self._cluster.timeout_ms,
                on_delivered=None,
                transactional_id=self._coordinator.transactional_id,
                new_identity=self._current_identity,
            )
        return self._delivery

    def _check_protocol(self) -> None:
        version = self._cluster.connection(self._coordinator.node.endpoint).version(EndTxnRequest)
        if version < _END_VERSION_MIN:
            raise UnsupportedApi("the broker is too old: transactions need Kafka's transaction protocol 2 (Kafka 4.0)")

    def _current_identity(self) -> ProducerIdentity:
        assert self._identity is not None, "a transaction has begun"
        return self._identity

    def _commit_request(self) -> EndTxnRequest:
        identity = self._current_identity()
        return EndTxnRequest(
            transactional_id=self._coordinator.transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            committed=True,
        )

    def _read_end(self, response: EndTxnResponse) -> ProducerIdentity:
        self._coordinator.check(response.error_code)
        if response.producer_id < 0:
            return self._current_identity()
        return ProducerIdentity(response.producer_id, response.producer_epoch)

    @contextmanager
    def _checked(self) -> Generator[None]:
        if self._failure is not None:
            raise self._failure
        try:
            yield
        except ClientError as error:
            self._failure = error
            if error.code in FENCED:
                # What is left of the transaction is for the new owner of the id to abort.
                self._delivery = None
                self._failure = WriterFenced(
                    f"another process has taken over transactional id {self._coordinator.transactional_id!r}, or its "
                    f"transaction was open for longer than {self._timeout_ms} ms ({error})"
                )
                raise self._failure from error
            raise
