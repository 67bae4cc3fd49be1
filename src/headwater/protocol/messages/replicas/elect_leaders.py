"""ElectLeaders (key 43), v0-2: v1 adds the type of election and an error for the whole, v2 is flexible."""

from headwater.protocol.wire.codec import Request, Response, Struct, field, int8, int16, int32


class TopicPartitions(Struct):
    topic: str
    partitions: list[int32]


class ElectLeadersRequest(Request, key=43, versions="0-2", flexible="2+"):
    election_type: int8 = field(versions="1+")
    topic_partitions: list[TopicPartitions] | None
    timeout_ms: int32 = 60_000


class PartitionResult(Struct):
    partition_id: int32
    error_code: int16 = 0
    error_message: str | None = None


class ReplicaElectionResult(Struct):
    topic: str
    partition_result: list[PartitionResult]


class ElectLeadersResponse(Response, key=43, versions="0-2", flexible="2+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = field(versions="1+")
    replica_election_results: list[ReplicaElectionResult]
