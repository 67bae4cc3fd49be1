"""TxnOffsetCommit (key 28), v0-5: v2 adds the leader epoch, v3 is flexible and names the member, v4 adds an error code.

v5 makes the group's partition part of the transaction, so that no AddOffsetsToTxn comes before it.
"""

from headwater.protocol.wire.codec import Request, Response, Struct, field, int16, int32, int64


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int32
    committed_offset: int64
    committed_leader_epoch: int32 = field(versions="2+", default=-1)
    committed_metadata: str | None = field(default="")


class TxnOffsetCommitRequestTopic(Struct):
    name: str
    partitions: list[TxnOffsetCommitRequestPartition]


class TxnOffsetCommitRequest(Request, key=28, versions="0-5", flexible="3+"):
    transactional_id: str
    group_id: str
    producer_id: int64
    producer_epoch: int16
    generation_id: int32 = field(versions="3+", default=-1)
    member_id: str = field(versions="3+")
    group_instance_id: str | None = field(versions="3+")
    topics: list[TxnOffsetCommitRequestTopic]


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: int32
    error_code: int16 = 0


class TxnOffsetCommitResponseTopic(Struct):
    name: str
    partitions: list[TxnOffsetCommitResponsePartition]


class TxnOffsetCommitResponse(Response, key=28, versions="0-5", flexible="3+"):
    throttle_time_ms: int32 = 0
    topics: list[TxnOffsetCommitResponseTopic]
