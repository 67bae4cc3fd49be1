"""DescribeTransactions (key 65), v0: the state of transactional ids, and the partitions that their transactions write
to."""

from headwater.broker.access.guard import Guard
from headwater.broker.pending import result_of
from headwater.coordination.transactions.commands import TransactionDescription
from headwater.errors import HeadwaterError
from headwater.ids import TransactionalId
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.transactions.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
)
from headwater.protocol.messages.transactions.describe_transactions import TransactionState as Described
from headwater.security.acl import Operation
from headwater.security.acl import topic as named
from headwater.security.acl import transactional_id as named_id

REQUEST = DescribeTransactionsRequest


async def handle(request: DescribeTransactionsRequest, context: Context) -> DescribeTransactionsResponse:
    describe = context.broker.transactions.describe
    outcomes = {
        each: context.guard.denial(Operation.DESCRIBE, named_id(each)) or describe(TransactionalId(each))
        for each in request.transactional_ids
    }
    return DescribeTransactionsResponse(
        transaction_states=[
            _described(each, await result_of(outcome), context.guard) for each, outcome in outcomes.items()
        ]
    )


def _described(transactional_id: str, outcome: TransactionDescription | HeadwaterError, guard: Guard) -> Described:
    if isinstance(outcome, HeadwaterError):
        return Described(transactional_id=transactional_id, error_code=outcome.code, topics=[])
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(outcome.partitions):
        if guard.allows(Operation.DESCRIBE, named(topic), is_probe=True):
            by_topic.setdefault(topic, []).append(partition)
    return Described(
        transactional_id=transactional_id,
        transaction_state=outcome.state.label,
        transaction_timeout_ms=outcome.timeout_ms,
        transaction_start_time_ms=outcome.start_timestamp_ms,
        producer_id=outcome.producer.producer_id,
        producer_epoch=outcome.producer.epoch,
        topics=[TopicData(topic=topic, partitions=partitions) for topic, partitions in by_topic.items()],
        published_batch_id=outcome.published_batch_id,
    )
