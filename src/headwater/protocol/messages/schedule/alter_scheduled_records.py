"""AlterScheduledRecords (key 10012), v0: an API of Headwater's own: cancels, moves and delivers scheduled records."""

from headwater.protocol.messages.schedule.list_scheduled_records import ScheduledName
from headwater.protocol.wire.codec import Request, Response, Struct, field, int8, int16, int32, int64


class AlterScheduledRecordsRequest(Request, key=10_012, versions="0", flexible="0+"):
    topic: str
    # 0 cancels, 1 delivers now, 2 moves to `due_ms`.
    change: int8
    due_ms: int64 = field(default=-1)
    names: list[ScheduledName]


class AlteredName(Struct):
    """The outcome for one name, in the order of the request."""

    error_code: int16 = 0
    error_message: str | None = None
    record_count: int32 = 0


class AlterScheduledRecordsResponse(Response, key=10_012, versions="0", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    results: list[AlteredName]
