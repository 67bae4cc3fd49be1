"""A broker whose transactions are what a test says they are: those of coordinators, and those that partitions see."""

from collections.abc import Mapping

from headwater.errors import ErrorCode
from headwater.ids import TopicName, TopicPartition
from headwater.protocol.messages.cluster.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headwater.protocol.messages.topics.metadata import MetadataRequest
from headwater.protocol.messages.transactions import describe_transactions, list_transactions
from headwater.protocol.messages.transactions.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from headwater.protocol.messages.transactions.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
)
from headwater.protocol.messages.transactions.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from headwater.protocol.messages.transactions.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from headwater.protocol.wire.codec import Request, Response
from tests.support.client.scripted import ScriptedBroker, leading

ORDERS_0 = TopicPartition(TopicName("orders"), 0)
ORDERS_1 = TopicPartition(TopicName("orders"), 1)


def producing(
    producer_id: int, start_offset: int = -1, *, epoch: int = 0, timestamp_ms: int = 0, coordinator_epoch: int = -1
) -> ProducerState:
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=epoch,
        last_timestamp=timestamp_ms,
        coordinator_epoch=coordinator_epoch,
        current_txn_start_offset=start_offset,
    )


class ScriptedTransactions(ScriptedBroker):
    """Leads all partitions of `topics`, and coordinates every transactional id.

    `codes` are what markers are answered with in turn; after them they are written.
    """

    def __init__(self, topics: Mapping[str, int] | None = None) -> None:
        self.topics = dict(topics or {"orders": 2})
        self.producers: dict[TopicPartition, list[ProducerState]] = {}
        self.transactions: dict[str, describe_transactions.TransactionState] = {}
        self.codes: list[ErrorCode] = []
        super().__init__(
            {
                MetadataRequest: self._lead,
                FindCoordinatorRequest: lambda _: self.found(),
                ListTransactionsRequest: self._list,
                DescribeTransactionsRequest: self._describe,
                DescribeProducersRequest: self._describe_producers,
                WriteTxnMarkersRequest: self._write_markers,
            }
        )

    @property
    def markers(self) -> list[WritableTxnMarker]:
        return [
            marker
            for request in self.requests
            if isinstance(request, WriteTxnMarkersRequest)
            for marker in request.markers
        ]

    def begin(
        self,
        transactional_id: str,
        producer_id: int,
        *partitions: TopicPartition,
        state: str = "Ongoing",
        started_ms: int = 1_000,
        code: ErrorCode = ErrorCode.NONE,
    ) -> None:
        """Lets the coordinator know of a transaction."""
        self.transactions[transactional_id] = describe_transactions.TransactionState(
            error_code=code,
            transactional_id=transactional_id,
            transaction_state=state,
            transaction_timeout_ms=60_000,
            transaction_start_time_ms=started_ms,
            producer_id=producer_id,
            producer_epoch=5,
            topics=[TopicData(topic=topic, partitions=[index]) for topic, index in partitions],
        )

    def found(self, code: ErrorCode = ErrorCode.NONE) -> FindCoordinatorResponse:
        host, port = self.endpoint
        return FindCoordinatorResponse(
            coordinators=[Coordinator(key="", node_id=1, host=host, port=port, error_code=code)]
        )

    def _lead(self, request: Request) -> Response | bytes | None:
        return leading(self.topics, {1: self.endpoint})(request)

    def _list(self, request: Request) -> ListTransactionsResponse:
        assert isinstance(request, ListTransactionsRequest)
        return ListTransactionsResponse(
            unknown_state_filters=[],
            transaction_states=[
                list_transactions.TransactionState(
                    transactional_id=name, producer_id=found.producer_id, transaction_state=found.transaction_state
                )
                for name, found in self.transactions.items()
                if not request.producer_id_filters or found.producer_id in request.producer_id_filters
                if not request.state_filters or found.transaction_state in request.state_filters
            ],
        )

    def _describe(self, request: Request) -> DescribeTransactionsResponse:
        assert isinstance(request, DescribeTransactionsRequest)
        unknown = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        return DescribeTransactionsResponse(
            transaction_states=[
                self.transactions.get(name)
                or describe_transactions.TransactionState(error_code=unknown, transactional_id=name, topics=[])
                for name in request.transactional_ids
            ]
        )

    def _describe_producers(self, request: Request) -> DescribeProducersResponse:
        assert isinstance(request, DescribeProducersRequest)
        return DescribeProducersResponse(
            topics=[
                TopicResponse(
                    name=topic.name,
                    partitions=[
                        PartitionResponse(
                            partition_index=index,
                            active_producers=self.producers.get(TopicPartition(TopicName(topic.name), index), []),
                        )
                        for index in topic.partition_indexes
                    ],
                )
                for topic in request.topics
            ]
        )

    def _write_markers(self, request: Request) -> WriteTxnMarkersResponse:
        assert isinstance(request, WriteTxnMarkersRequest)
        (marker,) = request.markers
        (topic,) = marker.topics
        (index,) = topic.partition_indexes
        code = self.codes.pop(0) if self.codes else ErrorCode.NONE
        if code == ErrorCode.NONE:
            partition = TopicPartition(TopicName(topic.name), index)
            others = [each for each in self.producers.get(partition, []) if each.producer_id != marker.producer_id]
            self.producers[partition] = others
        result = WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
        written = WritableTxnMarkerTopicResult(name=topic.name, partitions=[result])
        return WriteTxnMarkersResponse(
            markers=[WritableTxnMarkerResult(producer_id=marker.producer_id, topics=[written])]
        )
