"""AddPartitionsToTxn (key 24), v0-5: adds partitions to a transaction, or only verifies that they are part of it.

v2 adds PRODUCER_FENCED, v3 is flexible, v4 takes many transactions and can verify, v5 adds TRANSACTION_ABORTABLE.
Clients use versions up to 3; later ones are for brokers that ask the coordinator."""

# Lazy annotations: nested functions are defined per request.
from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence

from headwater.broker.pending import Pending
from headwater.broker.shards.shard import Outcome
from headwater.coordination.catalog.topic_names import OFFSETS_TOPIC, is_internal
from headwater.coordination.transactions.commands import PROTOCOL_1, PROTOCOL_2, ProducerIdentity
from headwater.errors import ErrorCode, HeadwaterError
from headwater.ids import ProducerId, TopicName, TopicPartition, TransactionalId
from headwater.listeners.kafka.context import Context
from headwater.listeners.kafka.transaction_codes import KnownFrom
from headwater.protocol.messages.transactions.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from headwater.security.acl import CLUSTER, Operation, topic, transactional_id

REQUEST = AddPartitionsToTxnRequest

FIRST_VERSION_WITH_MANY = 4
KNOWN_FROM = KnownFrom(fenced=2, abortable=5)


def handle(
    request: AddPartitionsToTxnRequest, context: Context
) -> AddPartitionsToTxnResponse | Pending[AddPartitionsToTxnResponse] | Awaitable[AddPartitionsToTxnResponse]:
    if context.api_version >= FIRST_VERSION_WITH_MANY:
        denial = context.guard.denial(Operation.CLUSTER_ACTION, CLUSTER)
        if denial is not None:
            return AddPartitionsToTxnResponse(error_code=denial.code)
        return _handle_many(request, context)
    requested = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    return _results(requested, context).map(
        lambda results: AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)
    )


async def _handle_many(request: AddPartitionsToTxnRequest, context: Context) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transactional_id=requested.transactional_id, topic_results=await _results(requested, context).wait()
            )
            for requested in request.transactions
        ]
    )


def _results(
    requested: AddPartitionsToTxnTransaction, context: Context
) -> Pending[list[AddPartitionsToTxnTopicResult]]:
    partitions = [TopicPartition(TopicName(each.name), index) for each in requested.topics for index in each.partitions]
    refused = {each: code for each in partitions if (code := _refusal(each, context)) is not None}
    codes: Pending[Mapping[TopicPartition, ErrorCode]] = Pending()
    denial = _denial(requested, context)
    if denial is not None:
        codes.resolve(dict.fromkeys(partitions, denial.code))
    elif refused:
        # All or nothing: one refused partition means that none is added.
        codes.resolve({**dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED), **refused})
    else:
        codes = _codes(requested, partitions, context)
    return codes.map(lambda known: [_topic_result(each, known) for each in requested.topics])


def _denial(requested: AddPartitionsToTxnTransaction, context: Context) -> HeadwaterError | None:
    if context.api_version >= FIRST_VERSION_WITH_MANY:
        # Another broker has authorized its client.
        return None
    return context.guard.denial(Operation.WRITE, transactional_id(requested.transactional_id))


def _refusal(where: TopicPartition, context: Context) -> ErrorCode | None:
    # Only the broker writes to internal topics. Clients add the offsets of groups with AddOffsetsToTxn; other brokers
    # add them with this API.
    is_from_client = context.api_version < FIRST_VERSION_WITH_MANY
    if is_internal(where.topic) and (is_from_client or where.topic != OFFSETS_TOPIC):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if is_from_client and not context.guard.allows(Operation.WRITE, topic(where.topic)):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    found = context.broker.topics.find(where.topic)
    if found is None or not 0 <= where.partition < found.partition_count:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return None


def _codes(
    requested: AddPartitionsToTxnTransaction, partitions: Sequence[TopicPartition], context: Context
) -> Pending[Mapping[TopicPartition, ErrorCode]]:
    transactions, version = context.broker.transactions, context.api_version
    transactional_id = TransactionalId(requested.transactional_id)
    producer = ProducerIdentity(ProducerId(requested.producer_id), requested.producer_epoch)

    def added(refusal: HeadwaterError | None) -> Mapping[TopicPartition, ErrorCode]:
        return dict.fromkeys(partitions, KNOWN_FROM.code(refusal, version))

    def verified(outcome: Outcome[Sequence[ErrorCode]]) -> Mapping[TopicPartition, ErrorCode]:
        if isinstance(outcome, HeadwaterError):
            return added(outcome)
        return {each: KNOWN_FROM.translated(code, version) for each, code in zip(partitions, outcome, strict=True)}

    if requested.verify_only:
        return transactions.verify(transactional_id, producer, partitions).map(verified)
    # Brokers that add partitions for their clients use the second protocol.
    protocol_version = PROTOCOL_1 if version < FIRST_VERSION_WITH_MANY else PROTOCOL_2
    return transactions.add_partitions(transactional_id, producer, partitions, protocol_version).map(added)


def _topic_result(
    requested: AddPartitionsToTxnTopic, codes: Mapping[TopicPartition, ErrorCode]
) -> AddPartitionsToTxnTopicResult:
    return AddPartitionsToTxnTopicResult(
        name=requested.name,
        results_by_partition=[
            AddPartitionsToTxnPartitionResult(
                partition_index=index, partition_error_code=codes[TopicPartition(TopicName(requested.name), index)]
            )
            for index in requested.partitions
        ],
    )
