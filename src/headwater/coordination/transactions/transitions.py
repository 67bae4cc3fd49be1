"""The states of one transactional id, and which may follow which: each function returns what is stored next.

Pure, on values. Whether a client may cause a transition is decided elsewhere; here it is only checked to be legal.
"""

from collections.abc import Mapping
from typing import Any, Final

from headwater.coordination.decisions import Now
from headwater.coordination.transactions.commands import (
    PROTOCOL_1,
    PROTOCOL_2,
    InitProducer,
    ProducerIdentity,
    WriteMarkers,
)
from headwater.coordination.transactions.events import NO_EPOCH, NO_TIMESTAMP_MS, TransactionState, TransactionStored
from headwater.ids import NO_PRODUCER_ID, ProducerId, TopicPartition

EMPTY, ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
PREPARE_COMMIT, PREPARE_ABORT = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
COMPLETE_COMMIT, COMPLETE_ABORT = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT
DEAD, PREPARE_EPOCH_FENCE = TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE

# The highest epoch is given to no client, so that there is always one left to fence the last client.
EPOCH_MAX: Final = (1 << 15) - 1
EPOCH_OF_CLIENT_MAX: Final = EPOCH_MAX - 1

# The end is decided, and markers may be missing in some partitions.
PREPARED: Final = frozenset({PREPARE_COMMIT, PREPARE_ABORT, PREPARE_EPOCH_FENCE})
COMPLETE: Final = frozenset({COMPLETE_COMMIT, COMPLETE_ABORT})
# No transaction is open.
IDLE: Final = frozenset({EMPTY, *COMPLETE})

# Fencing a producer and aborting its transaction are one step here, so PREPARE_EPOCH_FENCE is only found in a log that
# Kafka wrote. An id that would be DEAD is forgotten.
FOLLOWERS: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    EMPTY: frozenset({EMPTY, ONGOING, COMPLETE_ABORT}),
    ONGOING: frozenset({ONGOING, PREPARE_COMMIT, PREPARE_ABORT}),
    PREPARE_COMMIT: frozenset({COMPLETE_COMMIT}),
    PREPARE_ABORT: frozenset({COMPLETE_ABORT}),
    PREPARE_EPOCH_FENCE: frozenset({COMPLETE_ABORT}),
    COMPLETE_COMMIT: frozenset({EMPTY, ONGOING, COMPLETE_ABORT}),
    COMPLETE_ABORT: frozenset({EMPTY, ONGOING, COMPLETE_ABORT}),
}

NOBODY: Final = ProducerIdentity(NO_PRODUCER_ID, NO_EPOCH)


# -- questions


def identity_of(transaction: TransactionStored) -> ProducerIdentity:
    """The current owner of the id, as the client was last told."""
    if transaction.next_producer_id != NO_PRODUCER_ID:
        return ProducerIdentity(transaction.next_producer_id, 0)
    return ProducerIdentity(transaction.producer_id, transaction.producer_epoch)


def identity_before(transaction: TransactionStored) -> ProducerIdentity | None:
    """The owner before the current one: a client that did not get the answer retries its request with this identity."""
    if transaction.last_producer_epoch == NO_EPOCH:
        return None
    return ProducerIdentity(transaction.previous_producer_id, transaction.last_producer_epoch)


def identity_after(transaction: TransactionStored, new_producer_id: ProducerId) -> ProducerIdentity:
    """The next epoch, or the first epoch of a new producer id if there is none left."""
    if is_used_up(transaction):
        return ProducerIdentity(new_producer_id, 0)
    return ProducerIdentity(transaction.producer_id, transaction.producer_epoch + 1)


def is_used_up(transaction: TransactionStored) -> bool:
    return transaction.producer_epoch >= EPOCH_OF_CLIENT_MAX


def markers_of(transaction: TransactionStored) -> WriteMarkers:
    assert transaction.state in PREPARED
    return WriteMarkers(
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.state is PREPARE_COMMIT,
        transaction.partitions,
        transaction.protocol_version,
        transaction.start_timestamp_ms,
    )


# -- changes


def created(init: InitProducer, now: Now) -> TransactionStored:
    return TransactionStored(
        transactional_id=init.transactional_id,
        producer_id=init.new_producer_id,
        producer_epoch=0,
        timeout_ms=init.timeout_ms,
        state=EMPTY,
        partitions=frozenset(),
        start_timestamp_ms=NO_TIMESTAMP_MS,
        update_timestamp_ms=now.wall_ms,
    )


def initialized(
    transaction: TransactionStored, init: InitProducer, identity: ProducerIdentity, now: Now
) -> TransactionStored:
    """The id belongs to this identity from now on."""
    # Only a client that brings its former identity can be recognized when it retries.
    before = init.expected or NOBODY
    return _moved(
        transaction,
        EMPTY,
        now,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        timeout_ms=init.timeout_ms,
        start_timestamp_ms=NO_TIMESTAMP_MS,
        protocol_version=PROTOCOL_1,
        previous_producer_id=before.producer_id,
        last_producer_epoch=before.epoch,
    )


def begun(
    transaction: TransactionStored, partitions: frozenset[TopicPartition], protocol_version: int, now: Now
) -> TransactionStored:
    return _moved(
        transaction,
        ONGOING,
        now,
        partitions=partitions,
        start_timestamp_ms=_start_ms(transaction, now),
        protocol_version=protocol_version,
        # The client knows its identity, so it cannot retry an earlier request any more.
        previous_producer_id=NO_PRODUCER_ID,
        last_producer_epoch=NO_EPOCH,
    )


def extended(
    transaction: TransactionStored, partitions: frozenset[TopicPartition], protocol_version: int, now: Now
) -> TransactionStored:
    return _moved(transaction, ONGOING, now, partitions=partitions, protocol_version=protocol_version)


def prepared(
    transaction: TransactionStored, new_producer_id: ProducerId, now: Now, *, is_commit: bool, protocol_version: int
) -> TransactionStored:
    """The decision: from here on the transaction ends in this way, whatever happens."""
    state = PREPARE_COMMIT if is_commit else PREPARE_ABORT
    if protocol_version == PROTOCOL_1:
        return _moved(transaction, state, now, protocol_version=PROTOCOL_1)
    next_producer_id = new_producer_id if is_used_up(transaction) else NO_PRODUCER_ID
    return _moved(_raised(transaction), state, now, next_producer_id=next_producer_id)


def fenced(transaction: TransactionStored, now: Now) -> TransactionStored:
    """Aborted on behalf of the broker or another client: a higher epoch fences the client that had it open."""
    return _moved(_raised(transaction), PREPARE_ABORT, now)


def completed(transaction: TransactionStored, now: Now) -> TransactionStored:
    """All markers are written."""
    identity = identity_of(transaction)
    return _moved(
        transaction,
        COMPLETE_COMMIT if transaction.state is PREPARE_COMMIT else COMPLETE_ABORT,
        now,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        partitions=frozenset[TopicPartition](),
        next_producer_id=NO_PRODUCER_ID,
    )


def aborted_unused(
    transaction: TransactionStored, client: ProducerIdentity, new_producer_id: ProducerId, now: Now
) -> TransactionStored:
    """There is nothing to abort and no partition needs a marker, but the client goes on under another epoch."""
    identity = identity_after(transaction, new_producer_id)
    return _moved(
        transaction,
        COMPLETE_ABORT,
        now,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        start_timestamp_ms=_start_ms(transaction, now),
        protocol_version=PROTOCOL_2,
        previous_producer_id=client.producer_id,
        last_producer_epoch=client.epoch,
    )


def _raised(transaction: TransactionStored) -> TransactionStored:
    return transaction._replace(
        # A log that Kafka wrote may already contain the highest epoch.
        producer_epoch=min(transaction.producer_epoch + 1, EPOCH_MAX),
        previous_producer_id=transaction.producer_id,
        last_producer_epoch=transaction.producer_epoch,
        protocol_version=PROTOCOL_2,
    )


def _start_ms(transaction: TransactionStored, now: Now) -> int:
    # Rises even if the clock stands still or was set back, because it tells the transactions of an epoch apart.
    return max(now.wall_ms, transaction.start_timestamp_ms + 1)


def _moved(transaction: TransactionStored, state: TransactionState, now: Now, **changes: Any) -> TransactionStored:
    assert state in FOLLOWERS[transaction.state], f"{state.label} does not follow {transaction.state.label}"
    return transaction._replace(state=state, update_timestamp_ms=now.wall_ms, **changes)
