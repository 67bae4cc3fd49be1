"""The requests of producers and tools about transactions and their results, free of any wire format."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from headwater.coordination.transactions.events import NO_BATCH_ID, TransactionState
from headwater.ids import ProducerId, TopicPartition, TransactionalId

# Versions of the transaction protocol. In version 2 (KIP-890) every end of a transaction raises the epoch.
PROTOCOL_1 = 1
PROTOCOL_2 = 2


class TransactionSettings(Protocol):
    """The broker settings that concern transactions."""

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
    # Used if the transactional id is new, or if the epochs of its producer id are used up.
    new_producer_id: ProducerId
    # The identity that the client has had so far (KIP-360); None for a client that has just started.
    expected: ProducerIdentity | None = None
    # Both belong to two-phase commit (KIP-939).
    enable_two_phase: bool = False
    keep_prepared: bool = False


class EndTransaction(NamedTuple):
    transactional_id: TransactionalId
    producer: ProducerIdentity
    is_commit: bool
    protocol_version: int
    # Used if the end raises the epoch and there is none left.
    new_producer_id: ProducerId


class StagedWriter(NamedTuple):
    """A producer whose open transaction is a part of a batch, with its identity when it had written that part."""

    transactional_id: TransactionalId
    producer: ProducerIdentity


class PublishBatch(NamedTuple):
    application_id: TransactionalId
    # Numbers the application's batches in ascending order.
    batch_id: int
    # False: the writers' transactions are aborted, and the batch id is not stored.
    is_commit: bool
    writers: Sequence[StagedWriter]
    # Used if the application is new.
    new_producer_id: ProducerId


class PublishResult(NamedTuple):
    # The batch was published before, so what was written for it again is aborted.
    is_replay: bool
    published_batch_id: int


class WriteMarkers(NamedTuple):
    """An effect for the driver: write a marker to each of these partitions, retry until all are on disk, and then hand
    this back to the machine. A marker that was written before may be written again."""

    transactional_id: TransactionalId
    producer_id: ProducerId
    producer_epoch: int
    is_commit: bool
    partitions: frozenset[TopicPartition]
    # In protocol 2 the epoch of a marker is higher than the epoch of the records that it ends.
    protocol_version: int
    # Identifies the transaction, together with the epoch.
    start_timestamp_ms: int


class TransactionDescription(NamedTuple):
    transactional_id: TransactionalId
    producer: ProducerIdentity
    state: TransactionState
    timeout_ms: int
    # -1 if there has been no transaction.
    start_timestamp_ms: int
    partitions: frozenset[TopicPartition]
    published_batch_id: int = NO_BATCH_ID


class TransactionListing(NamedTuple):
    transactional_id: TransactionalId
    producer_id: ProducerId
    state: TransactionState
