"""ShareAcknowledge (key 79), v1-2: a member of a share group accepts, releases or rejects records that it holds.

v2 adds renewals (KIP-1222). The answer is sent when the outcome is on disk. The last request of a session gives back
what the member still holds."""

from collections.abc import Mapping

from headwater.broker.pending import Pending
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import TopicId
from headwater.listeners.kafka.apis.shares.acknowledgements import AcknowledgementOutcomes, said_in
from headwater.listeners.kafka.context import Context
from headwater.listeners.kafka.share_sessions import FINAL_EPOCH, INITIAL_EPOCH, Key, check_names
from headwater.protocol.messages.shares.share_acknowledge import (
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from headwater.protocol.messages.shares.share_fetch import LeaderIdAndEpoch
from headwater.security.acl import Operation, group

REQUEST = ShareAcknowledgeRequest


def handle(
    request: ShareAcknowledgeRequest, context: Context
) -> ShareAcknowledgeResponse | Pending[ShareAcknowledgeResponse]:
    epoch = request.share_session_epoch
    try:
        group_id, member_id = check_names(request.group_id, request.member_id)
        context.guard.check(Operation.READ, group(group_id))
        if epoch == INITIAL_EPOCH:
            raise Refusal(ErrorCode.INVALID_SHARE_SESSION_EPOCH, "a share session begins with a fetch")
        session = context.share_sessions.existing(group_id, member_id, epoch, context.link)
    except HeadwaterError as refusal:
        return ShareAcknowledgeResponse(
            error_code=refusal.code, error_message=str(refusal), responses=[], node_endpoints=[]
        )
    acknowledgements = AcknowledgementOutcomes(
        said_in(request.topics), group_id, member_id, context, is_renewal=request.is_renew_ack
    )
    if epoch == FINAL_EPOCH:
        context.share_sessions.end(session)
    lock_duration_ms = context.broker.shares.lock_duration_ms(group_id)
    return acknowledgements.map(lambda outcomes: _response(outcomes, lock_duration_ms))


def _response(outcomes: Mapping[Key, HeadwaterError | None], lock_duration_ms: int) -> ShareAcknowledgeResponse:
    by_topic: dict[TopicId, list[PartitionData]] = {}
    for (topic_id, index), error in outcomes.items():
        by_topic.setdefault(TopicId(topic_id), []).append(
            PartitionData(
                partition_index=index,
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else str(error),
                current_leader=LeaderIdAndEpoch(),
            )
        )
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=lock_duration_ms,
        responses=[
            ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in by_topic.items()
        ],
        node_endpoints=[],
    )
