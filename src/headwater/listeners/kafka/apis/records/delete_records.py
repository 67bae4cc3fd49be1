"""DeleteRecords (key 21), v0-2: moves the start of a log forward. v2 is flexible."""

from headwater.broker.audit.event import EventType
from headwater.errors import HeadwaterError
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.records.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from headwater.security.acl import Operation
from headwater.security.acl import topic as named

REQUEST = DeleteRecordsRequest

NO_LOW_WATERMARK = -1


async def handle(request: DeleteRecordsRequest, context: Context) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[await _delete(topic.name, requested, context) for requested in topic.partitions],
            )
            for topic in request.topics
        ]
    )


async def _delete(topic: str, requested: DeleteRecordsPartition, context: Context) -> DeleteRecordsPartitionResult:
    index = requested.partition_index
    try:
        context.guard.check(Operation.DELETE, named(topic))
        before = {"partition": str(index), "before": str(requested.offset)}
        with context.guard.change(EventType.RECORDS_DELETE, str(named(topic)), before):
            start_offset = await context.broker.delete_records(topic, index, requested.offset)
    except HeadwaterError as error:
        return DeleteRecordsPartitionResult(
            partition_index=index, low_watermark=NO_LOW_WATERMARK, error_code=error.code
        )
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=start_offset)
