"""DescribeSchedule (key 10010), v0: an API of Headwater's own: how many records of topics are scheduled."""

from headwater.protocol.wire.codec import Request, Response, Struct, int16, int32, int64


class SchedulePartition(Struct):
    partition_index: int32
    pending_count: int64
    size_bytes: int64
    # -1 if all of them wait for the end of a transaction.
    next_due_ms: int64


class ScheduleTopic(Struct):
    name: str
    error_code: int16 = 0
    error_message: str | None = None
    # Those with scheduled records.
    partitions: list[SchedulePartition]


class DescribeScheduleRequest(Request, key=10_010, versions="0", flexible="0+"):
    # None for all that the client may describe and that have scheduled records.
    topics: list[str] | None = None


class DescribeScheduleResponse(Response, key=10_010, versions="0", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    topics: list[ScheduleTopic]
