"""ShareAcknowledge (key 79), v1-2: v2 adds renewals."""

from uuid import UUID

from headwater.protocol.messages.shares.share_fetch import AcknowledgementBatch, LeaderIdAndEpoch, NodeEndpoint
from headwater.protocol.wire.codec import Request, Response, Struct, field, int16, int32


class AcknowledgePartition(Struct):
    partition_index: int32
    acknowledgement_batches: list[AcknowledgementBatch]


class AcknowledgeTopic(Struct):
    topic_id: UUID
    partitions: list[AcknowledgePartition]


class ShareAcknowledgeRequest(Request, key=79, versions="1-2", flexible="0+"):
    group_id: str | None = None
    member_id: str | None
    share_session_epoch: int32
    is_renew_ack: bool = field(versions="2+", default=False)
    topics: list[AcknowledgeTopic] = field()


class PartitionData(Struct):
    partition_index: int32
    error_code: int16 = 0
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch


class ShareAcknowledgeTopicResponse(Struct):
    topic_id: UUID
    partitions: list[PartitionData]


class ShareAcknowledgeResponse(Response, key=79, versions="1-2", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: int32 = field(versions="2+", default=0)
    responses: list[ShareAcknowledgeTopicResponse] = field()
    node_endpoints: list[NodeEndpoint]
