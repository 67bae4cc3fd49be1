"""EndTxn: the next state of a transaction, for each state and protocol.

In protocol 1 an epoch lasts for many transactions, so a delayed EndTxn for an earlier transaction cannot be told from
one for the open transaction. In protocol 2 every end raises the epoch, which tells them apart.
"""

from headwater.coordination.decisions import Now
from headwater.coordination.transactions.commands import PROTOCOL_2, EndTransaction, ProducerIdentity
from headwater.coordination.transactions.events import TransactionStored
from headwater.coordination.transactions.refusals import (
    concurrent,
    fenced_producer,
    nothing_to_end,
    unknown_producer,
)
from headwater.coordination.transactions.transitions import (
    COMPLETE,
    COMPLETE_COMMIT,
    EMPTY,
    EPOCH_MAX,
    ONGOING,
    PREPARE_COMMIT,
    PREPARED,
    aborted_unused,
    identity_before,
    identity_of,
    prepared,
)


def check_owner(transaction: TransactionStored, producer: ProducerIdentity) -> None:
    held = identity_of(transaction)
    if producer.producer_id != held.producer_id:
        raise unknown_producer(transaction.transactional_id)
    if producer.epoch != held.epoch:
        raise fenced_producer(transaction.transactional_id)


def ended(transaction: TransactionStored, end: EndTransaction, now: Now) -> TransactionStored | None:
    """What is stored next; None if the transaction has already ended in this way."""
    if _is_repeated(transaction, end):
        _check_repeated(transaction, end)
        if transaction.producer_epoch == EPOCH_MAX:
            # The transaction timed out in the last epoch for clients, and the highest epoch is given to no client.
            return aborted_unused(transaction, end.producer, end.new_producer_id, now)
        return None
    check_owner(transaction, end.producer)
    if transaction.state is ONGOING:
        return prepared(
            transaction,
            end.new_producer_id,
            now,
            is_commit=end.is_commit,
            protocol_version=end.protocol_version,
        )
    if end.protocol_version != PROTOCOL_2:
        _check_repeated(transaction, end)
        return None
    if transaction.state in PREPARED:
        # The client means its next transaction, which has no partitions yet.
        raise concurrent(end.transactional_id)
    if end.is_commit:
        raise nothing_to_end(transaction, is_commit=True)
    return aborted_unused(transaction, end.producer, end.new_producer_id, now)


def _is_repeated(transaction: TransactionStored, end: EndTransaction) -> bool:
    is_ended = transaction.state in PREPARED or transaction.state in COMPLETE
    return end.protocol_version == PROTOCOL_2 and is_ended and end.producer == identity_before(transaction)


def _check_repeated(transaction: TransactionStored, end: EndTransaction) -> None:
    """Refuses unless the transaction has ended as the client says, in all partitions."""
    is_committed = transaction.state in {PREPARE_COMMIT, COMPLETE_COMMIT}
    if transaction.state is EMPTY or end.is_commit != is_committed:
        raise nothing_to_end(transaction, is_commit=end.is_commit)
    if transaction.state in PREPARED:
        raise concurrent(end.transactional_id)
