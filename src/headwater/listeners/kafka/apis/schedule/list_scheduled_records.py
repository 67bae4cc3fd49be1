"""ListScheduledRecords (key 10011), v0, Headwater's own: the records of a topic that are scheduled, by page or name."""

from headwater.broker.schedule import administration
from headwater.broker.schedule.administration import Page, RecordName
from headwater.errors import HeadwaterError
from headwater.listeners.kafka.apis.schedule.names import check_names, read_name
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.schedule.list_scheduled_records import (
    ListScheduledRecordsRequest,
    ListScheduledRecordsResponse,
    ScheduledHeader,
    ScheduledRecord,
)
from headwater.security.acl import Operation, topic

REQUEST = ListScheduledRecordsRequest


async def handle(request: ListScheduledRecordsRequest, context: Context) -> ListScheduledRecordsResponse:
    try:
        operation = Operation.READ if request.with_contents else Operation.DESCRIBE
        context.guard.check(operation, topic(request.topic))
        page = await _page(request, context)
    except HeadwaterError as error:
        return ListScheduledRecordsResponse(error_code=error.code, error_message=str(error), records=[])
    with_contents = request.with_contents
    return ListScheduledRecordsResponse(
        records=[_record(each, with_contents=with_contents) for each in page.records], is_last=page.is_last
    )


async def _page(request: ListScheduledRecordsRequest, context: Context) -> Page:
    schedule = context.broker.schedule.administration
    if request.names is None:
        after = RecordName(request.after_partition, request.after_offset)
        return await schedule.page(request.topic, after, max(request.limit, 0))
    check_names(request.names)
    return await schedule.find(request.topic, [read_name(name) for name in request.names])


def _record(found: administration.ScheduledRecord, *, with_contents: bool) -> ScheduledRecord:
    record = found.record if with_contents else None
    return ScheduledRecord(
        partition_index=found.partition,
        schedule_offset=found.entry.offset,
        due_ms=found.entry.due_ms,
        size_bytes=found.entry.size,
        schedule_id=found.schedule_id,
        is_readable=found.record is not None,
        key=None if record is None else record.key,
        value=None if record is None else record.value,
        headers=[] if record is None else [ScheduledHeader(key=name, value=value) for name, value in record.headers],
    )
