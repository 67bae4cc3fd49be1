"""Why a producer is refused, by Kafka's codes. How an older version of a request spells them is for its handler."""

from headwater.coordination.transactions.events import TransactionStored
from headwater.errors import ErrorCode, KafkaError
from headwater.ids import TransactionalId


def unknown_producer(transactional_id: TransactionalId) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        f"transactional id '{transactional_id}' is not this producer's: initialize the producer again",
    )


def fenced_producer(transactional_id: TransactionalId) -> KafkaError:
    return KafkaError(
        ErrorCode.PRODUCER_FENCED,
        f"transactional id '{transactional_id}' is at a higher epoch: another producer took it over, or its "
        "transaction timed out",
    )


def concurrent(transactional_id: TransactionalId) -> KafkaError:
    return KafkaError(
        ErrorCode.CONCURRENT_TRANSACTIONS, f"a transaction of '{transactional_id}' is still being ended: try again"
    )


def nothing_to_end(transaction: TransactionStored, *, is_commit: bool) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_TXN_STATE,
        f"'{transaction.transactional_id}' has no transaction to {'commit' if is_commit else 'abort'}: its state is "
        f"{transaction.state.label}",
    )
