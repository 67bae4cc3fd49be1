"""DescribeLogDirs (key 35), v1-4: v2 is flexible, v3 adds an error for the whole, v4 the sizes of the volume."""

from headwater.protocol.wire.codec import Request, Response, Struct, field, int16, int32, int64


class DescribableLogDirTopic(Struct):
    topic: str
    partitions: list[int32]


class DescribeLogDirsRequest(Request, key=35, versions="1-4", flexible="2+"):
    topics: list[DescribableLogDirTopic] | None


class DescribeLogDirsPartition(Struct):
    partition_index: int32
    partition_size: int64
    offset_lag: int64
    is_future_key: bool = False


class DescribeLogDirsTopic(Struct):
    name: str
    partitions: list[DescribeLogDirsPartition]


class DescribeLogDirsResult(Struct):
    error_code: int16 = 0
    log_dir: str
    topics: list[DescribeLogDirsTopic]
    total_bytes: int64 = field(versions="4+", default=-1)
    usable_bytes: int64 = field(versions="4+", default=-1)


class DescribeLogDirsResponse(Response, key=35, versions="1-4", flexible="2+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = field(versions="3+")
    results: list[DescribeLogDirsResult]
