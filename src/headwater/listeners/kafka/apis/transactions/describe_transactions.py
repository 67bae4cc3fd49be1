"""DescribeTransactions (key 65), v0: the state of transactional ids, and the partitions that their transactions write
to."""

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

REQUEST = DescribeTransactionsRequest


async def handle(request: DescribeTransactionsRequest, context: Context) -> DescribeTransactionsResponse:
    describe = context.broker.transactions.describe
    outcomes = {each: describe(TransactionalId(each)) for each in request.transactional_ids}
    return DescribeTransactionsResponse(
        transaction_states=[_described(each, await outcome.wait()) for each, outcome in outcomes.items()]
    )


def _described(transactional_id: str, outcome: TransactionDescription | HeadwaterError) -> Described:
    if isinstance(outcome, HeadwaterError):
        return Described(transactional_id=transactional_id, error_code=outcome.code, topics=[])
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(outcome.partitions):
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
