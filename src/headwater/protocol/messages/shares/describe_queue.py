"""DescribeQueue (key 10023), v0, Headwater's own: how far a share group is in each partition."""

from headwater.protocol.wire.codec import Request, Response, Struct, field, int16, int32, int64


class QueuePartition(Struct):
    topic: str
    partition: int32
    start_offset: int64
    end_offset: int64
    # Records that are not done with, and how many of them are held by clients, or wait for their next delivery.
    backlog: int64
    held: int64
    waiting: int64
    # For how long the oldest of them has been in the topic; -1 if there is none.
    oldest_age_ms: int64 = field(default=-1)
    # Since the broker started. Archived records were rejected, or delivered too often.
    deliveries: int64
    accepted: int64
    archived: int64


class DescribeQueueRequest(Request, key=10_023, versions="0", flexible="0+"):
    group_id: str
    # None: all that the group has begun with.
    topics: list[str] | None = None


class DescribeQueueResponse(Response, key=10_023, versions="0", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    partitions: list[QueuePartition]
