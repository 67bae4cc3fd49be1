"""ListOffsets (key 2): the first or last offset, or the one that belongs to a time.

v7 adds the record with the latest timestamp, v8 and v9 the places of tiered storage (KIP-405), v11 those that wait to
be uploaded."""

from collections.abc import Mapping

from headwater.broker.reads.offset_lookup import Place
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.records.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

REQUEST = ListOffsetsRequest

FIRST_VERSIONS: Mapping[int, int] = {
    Place.MAX_TIMESTAMP: 7,
    Place.EARLIEST_LOCAL: 8,
    Place.LATEST_TIERED: 9,
    Place.EARLIEST_PENDING_UPLOAD: 11,
}
READ_COMMITTED = 1


async def handle(request: ListOffsetsRequest, context: Context) -> ListOffsetsResponse:
    committed_only = request.isolation_level == READ_COMMITTED
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    await _look_up(topic.name, asked, context, committed_only=committed_only)
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


async def _look_up(
    topic: str, asked: ListOffsetsPartition, context: Context, *, committed_only: bool
) -> ListOffsetsPartitionResponse:
    index = asked.partition_index
    try:
        if context.api_version < FIRST_VERSIONS.get(asked.timestamp, 0) or asked.timestamp < min(Place):
            raise Refusal(ErrorCode.UNSUPPORTED_VERSION, f"timestamp {asked.timestamp} has no meaning here")
        found = await context.broker.look_up_offset(
            topic, index, asked.timestamp, leader_epoch=asked.current_leader_epoch, committed_only=committed_only
        )
    except HeadwaterError as error:
        return ListOffsetsPartitionResponse(partition_index=index, error_code=error.code)
    return ListOffsetsPartitionResponse(
        partition_index=index, timestamp=found.timestamp, offset=found.offset, leader_epoch=found.leader_epoch
    )
