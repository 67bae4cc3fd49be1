"""DescribeProducers (key 61), v0: the idempotent producers of a partition, and their open transactions there."""

from headwater.errors import HeadwaterError
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.transactions.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from headwater.security.acl import Operation
from headwater.security.acl import topic as named

REQUEST = DescribeProducersRequest


def handle(request: DescribeProducersRequest, context: Context) -> DescribeProducersResponse:
    # Once each: a request that names a partition a thousand times must not get its producers a thousand times.
    requested: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        requested.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    return DescribeProducersResponse(
        topics=[
            TopicResponse(name=name, partitions=[_partition(name, index, context) for index in indexes])
            for name, indexes in requested.items()
        ]
    )


def _partition(topic: str, index: int, context: Context) -> PartitionResponse:
    try:
        context.broker.topics.check_name(topic)
        context.guard.check(Operation.READ, named(topic))
        producers = context.broker.producers(topic, index)
    except HeadwaterError as error:
        return PartitionResponse(
            partition_index=index, error_code=error.code, error_message=str(error), active_producers=[]
        )
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=state.producer_id,
                producer_epoch=state.producer_epoch,
                last_sequence=state.last_sequence,
                last_timestamp=state.last_timestamp,
                coordinator_epoch=state.coordinator_epoch,
                current_txn_start_offset=state.current_txn_first_offset,
            )
            for state in producers
        ],
    )
