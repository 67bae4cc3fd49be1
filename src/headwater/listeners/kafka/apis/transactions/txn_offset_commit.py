"""TxnOffsetCommit (key 28): offsets of a group that count when the transaction is committed."""

from collections.abc import Sequence

from headwater.broker.transactions.coordinator import TransactionMembership
from headwater.coordination.groups.offsets.commands import Commit, OffsetToCommit
from headwater.coordination.transactions.commands import ProducerIdentity
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import GroupId, MemberId, ProducerId, TransactionalId
from headwater.listeners.kafka.context import Context
from headwater.listeners.kafka.transaction_codes import KnownFrom
from headwater.protocol.messages.transactions.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

REQUEST = TxnOffsetCommitRequest

FIRST_VERSION_THAT_KNOWS_LOADING = 2
FIRST_VERSION_WITH_ABORTABLE = 4
FIRST_VERSION_THAT_ADDS_PARTITIONS = 5
# A producer that is fenced is told so by its epoch here.
KNOWN_FROM = KnownFrom(fenced=99, abortable=FIRST_VERSION_WITH_ABORTABLE)


async def handle(request: TxnOffsetCommitRequest, context: Context) -> TxnOffsetCommitResponse:
    broker, version = context.broker, context.api_version
    offsets: list[OffsetToCommit] = []
    # One for each partition asked for; None where the group has the last word.
    refusals: list[ErrorCode | None] = []
    for asked in request.topics:
        topic = broker.topics.find(asked.name)
        for each in asked.partitions:
            if topic is None or not 0 <= each.partition_index < topic.partition_count:
                refusals.append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                continue
            refusals.append(None)
            offsets.append(
                OffsetToCommit(
                    topic.name,
                    each.partition_index,
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.committed_metadata or "",
                    topic.id,
                )
            )
    outcome = await _commit(request, offsets, context)
    decided = iter(()) if isinstance(outcome, HeadwaterError) else iter(outcome)
    refusal = KNOWN_FROM.code(outcome, version) if isinstance(outcome, HeadwaterError) else ErrorCode.NONE
    codes = (next(decided, refusal) if refused is None else refused for refused in refusals)
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=asked.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=next(codes))
                    for each in asked.partitions
                ],
            )
            for asked in request.topics
        ]
    )


async def _commit(
    request: TxnOffsetCommitRequest, offsets: Sequence[OffsetToCommit], context: Context
) -> Sequence[ErrorCode] | HeadwaterError:
    broker, version = context.broker, context.api_version
    group_id = GroupId(request.group_id)
    producer = ProducerIdentity(ProducerId(request.producer_id), request.producer_epoch)
    commit = Commit(MemberId(request.member_id), request.group_instance_id, request.generation_id, offsets)
    try:
        await broker.groups.prepare()
    except HeadwaterError as error:
        return error
    membership = TransactionMembership(
        TransactionalId(request.transactional_id),
        adds_partitions=version >= FIRST_VERSION_THAT_ADDS_PARTITIONS,
        knows_abortable=version >= FIRST_VERSION_WITH_ABORTABLE,
    )
    outcome = await broker.commit_in_transaction(group_id, commit, producer, membership).wait()
    if isinstance(outcome, HeadwaterError):
        # What a producer of records comes back on ends one that commits offsets, and an old one is ended by a
        # coordinator that is being loaded (KAFKA-7296). All of them come back on this.
        is_unknown = (
            version < FIRST_VERSION_THAT_KNOWS_LOADING and outcome.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        )
        if is_unknown or outcome.code is ErrorCode.NOT_ENOUGH_REPLICAS:
            return Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(outcome))
    return outcome
