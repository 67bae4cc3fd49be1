"""DeleteRecords (key 21), v0-2: v2 is flexible."""

from headwater.protocol.wire.codec import Request, Response, Struct, int16, int32, int64


class DeleteRecordsPartition(Struct):
    partition_index: int32
    offset: int64


class DeleteRecordsTopic(Struct):
    name: str
    partitions: list[DeleteRecordsPartition]


class DeleteRecordsRequest(Request, key=21, versions="0-2", flexible="2+"):
    topics: list[DeleteRecordsTopic]
    timeout_ms: int32


class DeleteRecordsPartitionResult(Struct):
    partition_index: int32
    low_watermark: int64
    error_code: int16 = 0


class DeleteRecordsTopicResult(Struct):
    name: str
    partitions: list[DeleteRecordsPartitionResult]


class DeleteRecordsResponse(Response, key=21, versions="0-2", flexible="2+"):
    throttle_time_ms: int32 = 0
    topics: list[DeleteRecordsTopicResult]
