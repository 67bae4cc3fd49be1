"""The events of transactions. Each durable one is one record of `__transaction_state`, and all there is to know of its
id: what is stored last is the whole state, so a log that was compacted rebuilds the same."""

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from headwater.coordination.decisions import Volatile
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
        """What tools call it: PrepareCommit."""
        return self.name.title().replace("_", "")


class TransactionStored(NamedTuple):
    """One transactional id: whose it is, and how far its transaction has come."""

    transactional_id: TransactionalId
    producer_id: ProducerId
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition]
    # Differs for every transaction of an epoch, because in protocol 1 nothing else does.
    start_timestamp_ms: int
    update_timestamp_ms: int
    # 1: partitions are added and epochs raised by the client's requests; 2 (KIP-890): every end raises the epoch.
    protocol_version: int = 1
    # The producer id before the epochs of the last one were used up, for a client that repeats its request.
    previous_producer_id: ProducerId = NO_PRODUCER_ID
    # The producer id that the transaction's end moves on to.
    next_producer_id: ProducerId = NO_PRODUCER_ID
    next_producer_epoch: int = NO_EPOCH
    # The epoch before this one, as long as its client may not have heard of this one.
    last_producer_epoch: int = NO_EPOCH
    # Of an application whose writers are published together: the batch that was published last.
    published_batch_id: int = NO_BATCH_ID


class TransactionForgotten(NamedTuple):
    transactional_id: TransactionalId


Event: TypeAlias = TransactionStored | TransactionForgotten


@dataclass(frozen=True, slots=True)
class TimeLimitSet(Volatile):
    """When, on the monotonic clock, the transaction that is open is aborted."""

    transactional_id: TransactionalId
    due_ms: int
