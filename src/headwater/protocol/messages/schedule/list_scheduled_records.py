"""ListScheduledRecords (key 10011), v0: an API of Headwater's own: the records of a topic that are scheduled."""

from headwater.protocol.wire.codec import Request, Response, Struct, field, int16, int32, int64


class ScheduledName(Struct):
    # The place of a record; -1 where it is named by the id that its producer gave it.
    partition_index: int32 = field(default=-1)
    schedule_offset: int64 = field(default=-1)
    schedule_id: str | None = None


class ScheduledHeader(Struct):
    key: str
    value: bytes | None


class ScheduledRecord(Struct):
    partition_index: int32
    schedule_offset: int64
    due_ms: int64
    size_bytes: int32
    schedule_id: str | None = None
    # What follows is given if it was asked for, and can be read.
    is_readable: bool = False
    key: bytes | None = None
    value: bytes | None = None
    headers: list[ScheduledHeader]


class ListScheduledRecordsRequest(Request, key=10_011, versions="0", flexible="0+"):
    topic: str
    # None lists all, page by page.
    names: list[ScheduledName] | None = None
    # The last record of the page before.
    after_partition: int32 = field(default=-1)
    after_offset: int64 = field(default=-1)
    limit: int32 = 100
    with_contents: bool = False


class ListScheduledRecordsResponse(Response, key=10_011, versions="0", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    records: list[ScheduledRecord]
    is_last: bool = True
