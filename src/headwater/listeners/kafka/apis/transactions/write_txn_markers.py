"""WriteTxnMarkers (key 27), v1-2: ends transactions in partitions; for an administrator, if no coordinator does so.

v1 is flexible, v2 adds the version of the transaction."""

from headwater.broker.pending import Pending, result_of
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
from headwater.security.acl import CLUSTER, Operation

REQUEST = WriteTxnMarkersRequest

OLD_TRANSACTION_VERSION = 1


async def handle(request: WriteTxnMarkersRequest, context: Context) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(markers=[await _write(requested, context) for requested in request.markers])


async def _write(requested: WritableTxnMarker, context: Context) -> WritableTxnMarkerResult:
    denial = _denial(context)
    written = {
        (topic.name, index): denial or _write_one(requested, TopicPartition(TopicName(topic.name), index), context)
        for topic in requested.topics
        for index in dict.fromkeys(topic.partition_indexes)
    }
    outcomes = {where: await result_of(outcome) for where, outcome in written.items()}
    return WritableTxnMarkerResult(
        producer_id=requested.producer_id,
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
            for topic in requested.topics
        ],
    )


def _denial(context: Context) -> HeadwaterError | None:
    """Administrators may write markers, and so may other brokers."""
    if context.guard.allows(Operation.ALTER, CLUSTER, is_probe=True):
        return None
    return context.guard.denial(Operation.CLUSTER_ACTION, CLUSTER)


def _write_one(requested: WritableTxnMarker, where: TopicPartition, context: Context) -> Pending[HeadwaterError | None]:
    return context.broker.transactions.write_admin_marker(
        where,
        ProducerId(requested.producer_id),
        requested.producer_epoch,
        Marker(requested.transaction_result, requested.coordinator_epoch),
        protocol_version=max(requested.transaction_version, OLD_TRANSACTION_VERSION),
    )
