"""ReceiveRecords (key 10020), v0, Headwater's own: records of a share group for a client that is no member."""

from headwater.broker.pending import PendingTask
from headwater.broker.shares.queue import Receive
from headwater.config.group import EARLIEST, LATEST
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.ids import GroupId
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.shares.receive_records import (
    RESET_DEFAULT,
    RESET_EARLIEST,
    RESET_LATEST,
    QueueHeader,
    ReceivedRecord,
    ReceiveRecordsRequest,
    ReceiveRecordsResponse,
)

REQUEST = ReceiveRecordsRequest

_RESETS = {RESET_DEFAULT: None, RESET_EARLIEST: EARLIEST, RESET_LATEST: LATEST}


def handle(request: ReceiveRecordsRequest, context: Context) -> PendingTask[ReceiveRecordsResponse]:
    return PendingTask(_receive(request, context))


async def _receive(request: ReceiveRecordsRequest, context: Context) -> ReceiveRecordsResponse:
    try:
        if request.reset not in _RESETS:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"there is no reset {request.reset}")
        received = await context.broker.shares.queue.receive(
            context.guard,
            Receive(
                GroupId(request.group_id),
                request.topics,
                request.max_records,
                request.max_bytes,
                request.max_wait_ms,
                None if request.lock_duration_ms == -1 else request.lock_duration_ms,
                _RESETS[request.reset],
            ),
        )
    except HeadwaterError as error:
        return ReceiveRecordsResponse(error_code=error.code, error_message=str(error), records=[])
    return ReceiveRecordsResponse(
        records=[
            ReceivedRecord(
                topic=each.where.topic,
                partition=each.where.partition,
                offset=each.record.offset,
                timestamp_ms=each.record.timestamp,
                key=each.record.key,
                value=each.record.value,
                headers=[QueueHeader(name=name, value=value) for name, value in each.record.headers],
                delivery_count=each.delivery_count,
                receipt=each.receipt,
            )
            for each in received
        ]
    )
