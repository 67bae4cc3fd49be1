"""The events of transactions. Each durable event is one record of `__transaction_state` and has the whole state of its
id, so a compacted log rebuilds the same machine."""

from enum import IntEnum
from typing import NamedTuple, TypeAlias

from headwater.coordination.decisions import volatile
from headwater.ids import NO_PRODUCER_ID, ProducerId, TopicPartition, TransactionalId

NO_EPOCH = -1
NO_TIMESTAMP_MS = -1
NO_BATCH_ID = -1


class TransactionState(IntEnum):
    """The numbers are Kafka's."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """The name that tools use, such as PrepareCommit."""
        return self.name.title().replace("_", "")


class TransactionStored(NamedTuple):
    """One transactional id: its producer, and the state of its transaction."""

    transactional_id: TransactionalId
    producer_id: ProducerId
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition]
    # Unique among the transactions of an epoch, because nothing else tells them apart in protocol 1.
    start_timestamp_ms: int
    update_timestamp_ms: int
    # 1: requests of the client add partitions and raise the epoch. 2 (KIP-890): every end raises the epoch.
    protocol_version: int = 1
    # The producer id before the current one, whose epochs were used up. It identifies a client that retries a request.
    previous_producer_id: ProducerId = NO_PRODUCER_ID
    # The producer id that the client gets when the transaction has ended.
    next_producer_id: ProducerId = NO_PRODUCER_ID
    next_producer_epoch: int = NO_EPOCH
    # The epoch before the current one, as long as the client may not have been told the current one.
    last_producer_epoch: int = NO_EPOCH
    # For an application whose writers are published together: the batch published last.
    published_batch_id: int = NO_BATCH_ID


class TransactionForgotten(NamedTuple):
    transactional_id: TransactionalId


Event: TypeAlias = TransactionStored | TransactionForgotten


@volatile
class TimeLimitSet(NamedTuple):
    """When, on the monotonic clock, the open transaction is aborted."""

    transactional_id: TransactionalId
    due_ms: int
