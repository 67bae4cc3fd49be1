"""TxnOffsetCommit (key 28), v0-5: commits offsets of a group that count once the transaction is committed.

v2 adds leader epochs, v3 is flexible and names the member, v4 adds TRANSACTION_ABORTABLE, v5 adds the group's partition
to the transaction, so that no AddOffsetsToTxn comes before it."""

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
from headwater.security.acl import Operation, group, transactional_id
from headwater.security.acl import topic as named

REQUEST = TxnOffsetCommitRequest

FIRST_VERSION_THAT_KNOWS_LOADING = 2
FIRST_VERSION_WITH_ABORTABLE = 4
FIRST_VERSION_THAT_ADDS_PARTITIONS = 5
# No version of this API knows PRODUCER_FENCED: a fenced producer gets INVALID_PRODUCER_EPOCH.
KNOWN_FROM = KnownFrom(fenced=99, abortable=FIRST_VERSION_WITH_ABORTABLE)


async def handle(request: TxnOffsetCommitRequest, context: Context) -> TxnOffsetCommitResponse:
    broker, version = context.broker, context.api_version
    offsets: list[OffsetToCommit] = []
    # One for each partition of the request; None where the group decides.
    refusals: list[ErrorCode | None] = []
    denial = _denial(request, context)
    for requested in request.topics:
        denied = denial or context.guard.denial(Operation.READ, named(requested.name))
        topic = broker.topics.find(requested.name)
        for each in requested.partitions:
            if denied is not None:
                refusals.append(denied.code)
                continue
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
    outcome = denial or await _commit(request, offsets, context)
    decided = iter(()) if isinstance(outcome, HeadwaterError) else iter(outcome)
    refusal = KNOWN_FROM.code(outcome, version) if isinstance(outcome, HeadwaterError) else ErrorCode.NONE
    codes = (next(decided, refusal) if refused is None else refused for refused in refusals)
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=requested.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=next(codes))
                    for each in requested.partitions
                ],
            )
            for requested in request.topics
        ]
    )


def _denial(request: TxnOffsetCommitRequest, context: Context) -> HeadwaterError | None:
    return context.guard.denial(Operation.WRITE, transactional_id(request.transactional_id)) or context.guard.denial(
        Operation.READ, group(request.group_id)
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
    outcome = await broker.transactions.commit_offsets(group_id, commit, producer, membership).wait()
    if isinstance(outcome, HeadwaterError):
        # A client that commits offsets takes NOT_ENOUGH_REPLICAS for a fatal error, and an old client also
        # COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296). All of them try again on COORDINATOR_NOT_AVAILABLE.
        is_unknown = (
            version < FIRST_VERSION_THAT_KNOWS_LOADING and outcome.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        )
        if is_unknown or outcome.code is ErrorCode.NOT_ENOUGH_REPLICAS:
            return Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(outcome))
    return outcome
