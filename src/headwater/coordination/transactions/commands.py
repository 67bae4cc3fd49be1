"""What producers and tools ask of transactions and what they are told, free of any wire format."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from headwater.coordination.transactions.events import NO_BATCH_ID, TransactionState
from headwater.ids import ProducerId, TopicPartition, TransactionalId

# What an older client speaks, and what every end of a transaction raises the epoch in (KIP-890).
PROTOCOL_1 = 1
PROTOCOL_2 = 2


class TransactionSettings(Protocol):
    """The settings of the broker that concern transactions."""

    @property
    def transaction_max_timeout_ms(self) -> int: ...

    @property
    def transactional_id_expiration_ms(self) -> int: ...

    @property
    def headwater_transactions_max(self) -> int: ...

    @property
    def headwater_transaction_partitions_max(self) -> int: ...

    @property
    def headwater_transactions_partitions_max(self) -> int: ...

    @property
    def headwater_publish_writers_max(self) -> int: ...

    @property
    def headwater_application_id_expiration_ms(self) -> int: ...

    @property
    def transaction_state_log_segment_bytes(self) -> int: ...


class ProducerIdentity(NamedTuple):
    producer_id: ProducerId
    epoch: int


class InitProducer(NamedTuple):
    transactional_id: TransactionalId
    timeout_ms: int
    # Used where the id is new, or the epochs of its producer id are used up.
    new_producer_id: ProducerId
    # Who the client has been so far (KIP-360); None for one that has just started.
    expected: ProducerIdentity | None = None
    # Both of two-phase commit (KIP-939).
    enable_two_phase: bool = False
    keep_prepared: bool = False


class EndTransaction(NamedTuple):
    transactional_id: TransactionalId
    producer: ProducerIdentity
    is_commit: bool
    protocol_version: int
    # Used where the end raises the epoch and there is none left.
    new_producer_id: ProducerId


class StagedWriter(NamedTuple):
    """One of those whose transactions make up a batch, as it was when it had written all of its part."""

    transactional_id: TransactionalId
    producer: ProducerIdentity


class PublishBatch(NamedTuple):
    application_id: TransactionalId
    # Numbers the application's batches: a later one has a higher number.
    batch_id: int
    # False: the writers' transactions are aborted, and the batch is not remembered.
    is_commit: bool
    writers: Sequence[StagedWriter]
    # Used where the application is new.
    new_producer_id: ProducerId


class PublishResult(NamedTuple):
    # The batch had been published before, so that what was written for it again is aborted.
    is_replay: bool
    published_batch_id: int


class WriteMarkers(NamedTuple):
    """For the driver: write a marker to each of these partitions, again and again until it is there, and hand this
    back. Whoever writes them does not need to know whether they were written before."""

    transactional_id: TransactionalId
    producer_id: ProducerId
    producer_epoch: int
    is_commit: bool
    partitions: frozenset[TopicPartition]
    # In protocol 2 the epoch of a marker is higher than that of the records which it ends.
    protocol_version: int
    # Together with the epoch, which transaction it is.
    start_timestamp_ms: int


class TransactionDescription(NamedTuple):
    transactional_id: TransactionalId
    producer: ProducerIdentity
    state: TransactionState
    timeout_ms: int
    # -1 where there has been no transaction.
    start_timestamp_ms: int
    partitions: frozenset[TopicPartition]
    published_batch_id: int = NO_BATCH_ID


class TransactionListing(NamedTuple):
    transactional_id: TransactionalId
    producer_id: ProducerId
    state: TransactionState
