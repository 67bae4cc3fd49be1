"""SettleRecords (key 10021), v0, Headwater's own: what becomes of received records. Answered when the outcomes
are on disk."""

from headwater.broker.shares.queue import Settlement
from headwater.errors import HeadwaterError
from headwater.ids import GroupId
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.shares.settle_records import (
    SettleRecordsRequest,
    SettleRecordsResponse,
    SettleResult,
)

REQUEST = SettleRecordsRequest


async def handle(request: SettleRecordsRequest, context: Context) -> SettleRecordsResponse:
    settlements = [
        Settlement(each.receipt, each.type, None if each.duration_ms == -1 else each.duration_ms)
        for each in request.settlements
    ]
    try:
        outcomes = await context.broker.shares.queue.settle(context.guard, GroupId(request.group_id), settlements)
    except HeadwaterError as error:
        return SettleRecordsResponse(error_code=error.code, error_message=str(error), results=[])
    return SettleRecordsResponse(
        results=[
            SettleResult() if error is None else SettleResult(error_code=error.code, error_message=str(error))
            for error in outcomes
        ]
    )
