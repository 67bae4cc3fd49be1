"""AlterScheduledRecords (key 10012), v0, Headwater's own: cancels, moves and delivers scheduled records."""

from headwater.broker.schedule.administration import Change
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.listeners.kafka.apis.schedule.names import check_names, read_name
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.schedule.alter_scheduled_records import (
    AlteredName,
    AlterScheduledRecordsRequest,
    AlterScheduledRecordsResponse,
)
from headwater.protocol.messages.schedule.list_scheduled_records import ScheduledName
from headwater.security.acl import Operation, topic

REQUEST = AlterScheduledRecordsRequest

_CHANGES = {change.value: change for change in Change}


async def handle(request: AlterScheduledRecordsRequest, context: Context) -> AlterScheduledRecordsResponse:
    try:
        context.guard.check(Operation.WRITE, topic(request.topic))
        context.broker.topics.existing(request.topic)
        check_names(request.names)
        change = _CHANGES.get(request.change)
        if change is None:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"there is no change {request.change}: 0 to 2 exist")
    except HeadwaterError as error:
        return AlterScheduledRecordsResponse(error_code=error.code, error_message=str(error), results=[])
    results = [await _altered(request, change, name, context) for name in request.names]
    return AlterScheduledRecordsResponse(results=results)


async def _altered(
    request: AlterScheduledRecordsRequest, change: Change, name: ScheduledName, context: Context
) -> AlteredName:
    try:
        count = await context.broker.schedule.administration.change(
            request.topic, read_name(name), change, request.due_ms
        )
    except HeadwaterError as error:
        return AlteredName(error_code=error.code, error_message=str(error))
    return AlteredName(record_count=count)
