"""ListOffsets (key 2), v1-11: v2 adds isolation, v4 epochs, v6 is flexible, v10 adds a time-out.

v7, v8, v9 and v11 change no field: each allows one more special timestamp.
"""

from headwater.protocol.wire.codec import Request, Response, Struct, field, int8, int16, int32, int64


class ListOffsetsPartition(Struct):
    partition_index: int32
    current_leader_epoch: int32 = field(versions="4+", default=-1)
    timestamp: int64


class ListOffsetsTopic(Struct):
    name: str
    partitions: list[ListOffsetsPartition]


class ListOffsetsRequest(Request, key=2, versions="1-11", flexible="6+"):
    replica_id: int32
    isolation_level: int8 = field(versions="2+")
    topics: list[ListOffsetsTopic]
    timeout_ms: int32 = field(versions="10+")


class ListOffsetsPartitionResponse(Struct):
    partition_index: int32
    error_code: int16 = 0
    timestamp: int64 = -1
    offset: int64 = -1
    leader_epoch: int32 = field(versions="4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    name: str
    partitions: list[ListOffsetsPartitionResponse]


class ListOffsetsResponse(Response, key=2, versions="1-11", flexible="6+"):
    throttle_time_ms: int32 = field(versions="2+")
    topics: list[ListOffsetsTopicResponse]
