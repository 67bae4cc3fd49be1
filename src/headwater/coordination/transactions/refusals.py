"""Why a producer or a batch is refused, in Kafka's codes. Handlers translate the codes for older request versions."""

from headwater.coordination.transactions.events import TransactionStored
from headwater.errors import ErrorCode, Refusal
from headwater.ids import TransactionalId


def unknown_producer(transactional_id: TransactionalId) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        f"transactional id '{transactional_id}' is not this producer's: initialize the producer again",
    )


def fenced_producer(transactional_id: TransactionalId) -> Refusal:
    return Refusal(
        ErrorCode.PRODUCER_FENCED,
        f"transactional id '{transactional_id}' is at a higher epoch: another producer took it over, or its "
        "transaction timed out",
    )


def concurrent(transactional_id: TransactionalId) -> Refusal:
    return Refusal(
        ErrorCode.CONCURRENT_TRANSACTIONS, f"a transaction of '{transactional_id}' is still being ended: try again"
    )


def nothing_to_end(transaction: TransactionStored, *, is_commit: bool) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_TXN_STATE,
        f"'{transaction.transactional_id}' has no transaction to {'commit' if is_commit else 'abort'}: its state is "
        f"{transaction.state.label}",
    )


def aborted_writer(transaction: TransactionStored) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_TXN_STATE,
        f"what '{transaction.transactional_id}' wrote is aborted: it was open for longer than its time-out of "
        f"{transaction.timeout_ms} ms, or another writer or batch took its place",
    )


def nothing_to_publish(transaction: TransactionStored) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_TXN_STATE,
        f"'{transaction.transactional_id}' has nothing to publish: its state is {transaction.state.label}. A writer "
        "that wrote nothing is left out",
    )


def outdated_batch(application_id: TransactionalId, batch_id: int, published_batch_id: int) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"application '{application_id}' published batch {published_batch_id} already, {batch_id} is older: another "
        "query uses this application id, or its checkpoint was removed. Choose another application id",
    )
