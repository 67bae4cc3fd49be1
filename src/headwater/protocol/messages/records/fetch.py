"""Fetch (key 1), v4-18: v7 adds sessions, v12 is flexible, v13 names topics by id, v15 moves the replica into a tag."""

from uuid import UUID

from headwater.protocol.wire.codec import Records, Request, Response, Struct, field, int8, int16, int32, int64


class ReplicaState(Struct):
    replica_id: int32 = -1
    replica_epoch: int64 = -1


class FetchPartition(Struct):
    partition: int32
    current_leader_epoch: int32 = field(versions="9+", default=-1)
    fetch_offset: int64
    last_fetched_epoch: int32 = field(versions="12+", default=-1)
    log_start_offset: int64 = field(versions="5+", default=-1)
    partition_max_bytes: int32
    replica_directory_id: UUID = field(versions="17+", tag=0)
    high_watermark: int64 = field(versions="18+", tag=1, default=2**63 - 1)


class FetchTopic(Struct):
    topic: str = field(versions="0-12")
    topic_id: UUID = field(versions="13+")
    partitions: list[FetchPartition]


class ForgottenTopic(Struct):
    topic: str = field(versions="7-12")
    topic_id: UUID = field(versions="13+")
    partitions: list[int32]


class FetchRequest(Request, key=1, versions="4-18", flexible="12+"):
    cluster_id: str | None = field(versions="12+", tag=0)
    replica_id: int32 = field(versions="0-14", default=-1)
    replica_state: ReplicaState = field(versions="15+", tag=1)
    max_wait_ms: int32
    min_bytes: int32
    max_bytes: int32 = 2**31 - 1
    isolation_level: int8 = 0
    session_id: int32 = field(versions="7+", default=0)
    session_epoch: int32 = field(versions="7+", default=-1)
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic] = field(versions="7+")
    rack_id: str = field(versions="11+", default="")


class EpochEndOffset(Struct):
    epoch: int32 = -1
    end_offset: int64 = -1


class LeaderIdAndEpoch(Struct):
    leader_id: int32 = -1
    leader_epoch: int32 = -1


class SnapshotId(Struct):
    end_offset: int64 = -1
    epoch: int32 = -1


class AbortedTransaction(Struct):
    producer_id: int64
    first_offset: int64


class PartitionData(Struct):
    partition_index: int32
    error_code: int16 = 0
    high_watermark: int64
    last_stable_offset: int64 = -1
    log_start_offset: int64 = field(versions="5+", default=-1)
    diverging_epoch: EpochEndOffset = field(versions="12+", tag=0)
    current_leader: LeaderIdAndEpoch = field(versions="12+", tag=1)
    snapshot_id: SnapshotId = field(versions="12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = field(default=[])
    preferred_read_replica: int32 = field(versions="11+", default=-1)
    records: Records | None


class FetchableTopicResponse(Struct):
    topic: str = field(versions="0-12")
    topic_id: UUID = field(versions="13+")
    partitions: list[PartitionData]


class NodeEndpoint(Struct):
    node_id: int32
    host: str
    port: int32
    rack: str | None = None


class FetchResponse(Response, key=1, versions="4-18", flexible="12+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = field(versions="7+", default=0)
    session_id: int32 = field(versions="7+", default=0)
    responses: list[FetchableTopicResponse]
    node_endpoints: list[NodeEndpoint] = field(versions="16+", tag=0)
