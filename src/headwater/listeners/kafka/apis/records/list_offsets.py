"""ListOffsets (key 2), v1-11: the first or last offset of a partition, or the offset that belongs to a time.

v2 adds read_committed, v4 leader epochs, v6 is flexible, v7 adds the record with the latest timestamp, v8 and v9 the
places of tiered storage (KIP-405), v10 a timeout, v11 the records that wait to be uploaded."""

from collections import Counter
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
from headwater.security.acl import Operation
from headwater.security.acl import topic as named

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
    times_named = Counter((topic.name, each.partition_index) for topic in request.topics for each in topic.partitions)
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    await _look_up(
                        topic.name,
                        requested,
                        context,
                        is_repeated=times_named[topic.name, requested.partition_index] > 1,
                        committed_only=committed_only,
                    )
                    for requested in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


async def _look_up(
    topic: str, requested: ListOffsetsPartition, context: Context, *, is_repeated: bool, committed_only: bool
) -> ListOffsetsPartitionResponse:
    index = requested.partition_index
    try:
        context.guard.check(Operation.DESCRIBE, named(topic))
        if is_repeated:
            raise Refusal(ErrorCode.INVALID_REQUEST, "a partition is named twice in the request")
        if context.api_version < FIRST_VERSIONS.get(requested.timestamp, 0) or requested.timestamp < min(Place):
            raise Refusal(ErrorCode.UNSUPPORTED_VERSION, f"timestamp {requested.timestamp} has no meaning here")
        found = await context.broker.look_up_offset(
            topic,
            index,
            requested.timestamp,
            leader_epoch=requested.current_leader_epoch,
            committed_only=committed_only,
        )
    except HeadwaterError as error:
        return ListOffsetsPartitionResponse(partition_index=index, error_code=error.code)
    return ListOffsetsPartitionResponse(
        partition_index=index, timestamp=found.timestamp, offset=found.offset, leader_epoch=found.leader_epoch
    )
