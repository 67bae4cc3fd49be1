"""ShareFetch (key 78), v1-2: v2 adds the strict limit of records, and renewals."""

from uuid import UUID

from headwater.protocol.wire.codec import Records, Request, Response, Struct, field, int8, int16, int32, int64


class AcknowledgementBatch(Struct):
    first_offset: int64
    last_offset: int64
    acknowledge_types: list[int8]


class FetchPartition(Struct):
    partition_index: int32
    acknowledgement_batches: list[AcknowledgementBatch]


class FetchTopic(Struct):
    topic_id: UUID
    partitions: list[FetchPartition]


class ForgottenTopic(Struct):
    topic_id: UUID
    partitions: list[int32]


class ShareFetchRequest(Request, key=78, versions="1-2", flexible="0+"):
    group_id: str | None = None
    member_id: str | None
    share_session_epoch: int32
    max_wait_ms: int32
    min_bytes: int32
    max_bytes: int32 = 2**31 - 1
    max_records: int32 = field()
    batch_size: int32
    share_acquire_mode: int8 = field(versions="2+", default=0)
    is_renew_ack: bool = field(versions="2+", default=False)
    topics: list[FetchTopic] = field()
    forgotten_topics_data: list[ForgottenTopic]


class LeaderIdAndEpoch(Struct):
    leader_id: int32 = 0
    leader_epoch: int32 = 0


class AcquiredRecords(Struct):
    first_offset: int64
    last_offset: int64
    delivery_count: int16


class PartitionData(Struct):
    partition_index: int32
    error_code: int16 = 0
    error_message: str | None = None
    acknowledge_error_code: int16 = 0
    acknowledge_error_message: str | None = None
    current_leader: LeaderIdAndEpoch
    records: Records
    acquired_records: list[AcquiredRecords]


class ShareFetchableTopicResponse(Struct):
    topic_id: UUID
    partitions: list[PartitionData]


class NodeEndpoint(Struct):
    node_id: int32
    host: str
    port: int32
    rack: str | None = None


class ShareFetchResponse(Response, key=78, versions="1-2", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: int32 = 0
    responses: list[ShareFetchableTopicResponse]
    node_endpoints: list[NodeEndpoint]
