"""WriteTxnMarkers (key 27): ends transactions in partitions: for an administrator, where no coordinator will."""

from headwater.broker.pending import Pending
from headwater.errors import ErrorCode, HeadwaterError
from headwater.ids import ProducerId, TopicName, TopicPartition
from headwater.listeners.kafka.context import Context
from headwater.protocol.batches.batch import Marker
from headwater.protocol.messages.transactions.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

REQUEST = WriteTxnMarkersRequest

OLD_TRANSACTION_VERSION = 1


async def handle(request: WriteTxnMarkersRequest, context: Context) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(markers=[await _write(asked, context) for asked in request.markers])


async def _write(asked: WritableTxnMarker, context: Context) -> WritableTxnMarkerResult:
    written = {
        (topic.name, index): _write_one(asked, TopicPartition(TopicName(topic.name), index), context)
        for topic in asked.topics
        for index in dict.fromkeys(topic.partition_indexes)
    }
    outcomes = {where: await pending.wait() for where, pending in written.items()}
    return WritableTxnMarkerResult(
        producer_id=asked.producer_id,
        topics=[
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    WritableTxnMarkerPartitionResult(
                        partition_index=index, error_code=ErrorCode.NONE if error is None else error.code
                    )
                    for index in dict.fromkeys(topic.partition_indexes)
                    for error in (outcomes[topic.name, index],)
                ],
            )
            for topic in asked.topics
        ],
    )


def _write_one(asked: WritableTxnMarker, where: TopicPartition, context: Context) -> Pending[HeadwaterError | None]:
    return context.broker.transactions.write_admin_marker(
        where,
        ProducerId(asked.producer_id),
        asked.producer_epoch,
        Marker(asked.transaction_result, asked.coordinator_epoch),
        protocol_version=max(asked.transaction_version, OLD_TRANSACTION_VERSION),
    )
