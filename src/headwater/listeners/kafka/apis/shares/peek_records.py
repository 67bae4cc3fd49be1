"""PeekRecords (key 10022), v0, Headwater's own: the first records that a share group is not done with."""

from headwater.errors import HeadwaterError
from headwater.ids import GroupId
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.shares.peek_records import PeekedRecord, PeekRecordsRequest, PeekRecordsResponse
from headwater.protocol.messages.shares.receive_records import QueueHeader

REQUEST = PeekRecordsRequest


async def handle(request: PeekRecordsRequest, context: Context) -> PeekRecordsResponse:
    try:
        peeked = await context.broker.shares.queue_views.peek(
            context.guard,
            GroupId(request.group_id),
            request.topics,
            records_max=request.max_records,
            bytes_max=request.max_bytes,
        )
    except HeadwaterError as error:
        return PeekRecordsResponse(error_code=error.code, error_message=str(error), records=[])
    return PeekRecordsResponse(
        records=[
            PeekedRecord(
                topic=each.where.topic,
                partition=each.where.partition,
                offset=each.record.offset,
                timestamp_ms=each.record.timestamp,
                key=each.record.key,
                value=each.record.value,
                headers=[QueueHeader(name=name, value=value) for name, value in each.record.headers],
                state=each.state,
                delivery_count=each.delivery_count,
            )
            for each in peeked
        ]
    )
