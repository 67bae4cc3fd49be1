"""InitProducerId for a transactional id: whether the client may have it, and under which producer id and epoch.

A client that brings only the transactional id takes it over. A client that continues after an error brings its former
identity (KIP-360), and gets the id only if no other client has taken it over meanwhile.
"""

from headwater.coordination.decisions import Now
from headwater.coordination.transactions.commands import InitProducer, TransactionSettings
from headwater.coordination.transactions.events import TransactionStored
from headwater.coordination.transactions.refusals import fenced_producer
from headwater.coordination.transactions.transitions import (
    EPOCH_MAX,
    identity_after,
    identity_before,
    identity_of,
    initialized,
)
from headwater.errors import ErrorCode, Refusal


def check_init(init: InitProducer, settings: TransactionSettings) -> None:
    # Two-phase commit is not supported. Kafka refuses it with these codes.
    if init.enable_two_phase:
        raise Refusal(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "two-phase commit is not enabled on this broker")
    if init.keep_prepared:
        raise Refusal(ErrorCode.UNSUPPORTED_VERSION, "a prepared transaction cannot be kept")
    if not 0 < init.timeout_ms <= settings.transaction_max_timeout_ms:
        raise Refusal(
            ErrorCode.INVALID_TRANSACTION_TIMEOUT,
            f"a time-out of {init.timeout_ms} ms is not between 1 and {settings.transaction_max_timeout_ms} "
            "(transaction.max.timeout.ms)",
        )


def check_taker(transaction: TransactionStored, init: InitProducer) -> None:
    """Refuses a client that may not abort the open transaction and take the id over."""
    if init.expected is not None and init.expected != identity_of(transaction):
        raise fenced_producer(init.transactional_id)


def reinitialized(transaction: TransactionStored, init: InitProducer, now: Now) -> TransactionStored:
    """No transaction is open: the client gets the next epoch, or the same one again if it retries its request."""
    held = identity_of(transaction)
    if init.expected is not None and init.expected != held:
        if init.expected != identity_before(transaction):
            raise fenced_producer(init.transactional_id)
        # EPOCH_MAX is given to no client. The id is there if a transaction timed out in the last epoch for clients.
        if held.epoch != EPOCH_MAX:
            return initialized(transaction, init, held, now)
    return initialized(transaction, init, identity_after(transaction, init.new_producer_id), now)
