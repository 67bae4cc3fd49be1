"""Lists and describes transactions, as their coordinators and the partitions know them, and ends those that hang.

A transaction hangs in a partition where it is open while no coordinator knows of it, so that nobody will ever end it:
what was written after its start is then hidden for good from those who read committed records only.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from headwater.client.cluster import Cluster
from headwater.client.connection import BrokerConnection
from headwater.client.coordinator import CoordinatorNode, TransactionCoordinator
from headwater.client.errors import ClientError, UnknownTransactionalId, UnsupportedApi, check, only
from headwater.endpoint import Endpoint
from headwater.ids import NodeId, ProducerId, TopicName, TopicPartition, TransactionalId
from headwater.protocol.messages.transactions.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicRequest,
)
from headwater.protocol.messages.transactions.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from headwater.protocol.messages.transactions.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from headwater.protocol.messages.transactions.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

# Each of the others has no transaction, or one that every partition knows the end of.
OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")

# A broker that leads thousands of partitions is asked about them in parts.
_PARTITIONS_PER_REQUEST_MAX = 500
_DURATION_VERSION, _PATTERN_VERSION = 1, 2
_NO_DURATION = -1


class TransactionListing(NamedTuple):
    transactional_id: TransactionalId
    state: str
    producer_id: ProducerId
    coordinator: NodeId


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """`started_ms` is None where there was no transaction yet. `partitions` are those that wait for its end.
    `published_batch_id` is the last batch of an application whose writers are published together."""

    transactional_id: TransactionalId
    state: str
    producer_id: ProducerId
    producer_epoch: int
    timeout_ms: int
    started_ms: int | None
    partitions: tuple[TopicPartition, ...]
    coordinator: CoordinatorNode
    published_batch_id: int | None = None


class ProducerDescription(NamedTuple):
    """A producer as a partition knows it; None stands for what it does not know. `coordinator_epoch` is that of the
    last transaction that was ended, `transaction_start_offset` where the one that is open began."""

    producer_id: ProducerId
    epoch: int
    last_sequence: int | None
    last_timestamp_ms: int | None
    coordinator_epoch: int | None
    transaction_start_offset: int | None


class OpenTransaction(NamedTuple):
    """What one partition has of a transaction that is open there."""

    partition: TopicPartition
    producer: ProducerDescription
    start_offset: int


class TransactionAdmin:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    # -- as coordinators know them

    def list_transactions(
        self,
        *,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        longer_than_ms: int | None = None,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """The transactional ids of all brokers by name, whether a transaction is open or not; each filter narrows that.

        `longer_than_ms` looks at when the last transaction began, so that only with `states` it says how long one is
        open. `pattern` is a regular expression in RE2's syntax that the whole id matches.
        """
        request = ListTransactionsRequest(
            state_filters=sorted(states),
            producer_id_filters=sorted(producer_ids),
            duration_filter=_NO_DURATION if longer_than_ms is None else longer_than_ms,
            transactional_id_pattern=pattern,
        )

        def ask() -> dict[str, TransactionListing]:
            found: dict[str, TransactionListing] = {}
            for broker in self._cluster.metadata().brokers:
                connection = self._cluster.connection(Endpoint(broker.host, broker.port))
                _check_filters(connection, request)
                response = connection.call(request, ListTransactionsResponse)
                check(response.error_code, f"the transactions of the broker at {connection.endpoint}")
                if response.unknown_state_filters:
                    names = ", ".join(map(repr, response.unknown_state_filters))
                    raise ClientError(f"the broker at {connection.endpoint} knows no state {names}")
                for listed in response.transaction_states:
                    found[listed.transactional_id] = TransactionListing(
                        TransactionalId(listed.transactional_id),
                        listed.transaction_state,
                        ProducerId(listed.producer_id),
                        NodeId(broker.node_id),
                    )
            return found

        return sorted(self._cluster.retrying(ask).values())

    def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        coordinator = TransactionCoordinator(self._cluster, transactional_id)

        def read(response: DescribeTransactionsResponse) -> TransactionDescription:
            found = only(response.transaction_states)
            coordinator.check(found.error_code)
            return TransactionDescription(
                coordinator.transactional_id,
                found.transaction_state,
                ProducerId(found.producer_id),
                found.producer_epoch,
                found.transaction_timeout_ms,
                _known(found.transaction_start_time_ms),
                tuple(
                    sorted(
                        TopicPartition(TopicName(topic.topic), index)
                        for topic in found.topics
                        for index in topic.partitions
                    )
                ),
                coordinator.node,
                _known(found.published_batch_id),
            )

        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        return coordinator.ask(request, DescribeTransactionsResponse, read)

    # -- as partitions know them

    def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, tuple[ProducerDescription, ...]]:
        """The producers whose state the leaders of these partitions keep."""
        found: dict[TopicPartition, tuple[ProducerDescription, ...]] = {}
        remaining = iter(sorted(set(partitions)))
        while part := list(islice(remaining, _PARTITIONS_PER_REQUEST_MAX)):
            found |= self._cluster.ask_leaders(dict.fromkeys(part), _ask_producers)
        return found

    def open_transactions(self, partitions: Iterable[TopicPartition]) -> list[OpenTransaction]:
        """Those that are open in these partitions, by partition and start."""
        found = [
            OpenTransaction(partition, producer, producer.transaction_start_offset)
            for partition, producers in self.describe_producers(partitions).items()
            for producer in producers
            if producer.transaction_start_offset is not None
        ]
        return sorted(found, key=lambda each: (each.partition, each.start_offset))

    # -- those that hang

    def find_hanging(self, partitions: Iterable[TopicPartition], *, idle_ms: int) -> list[OpenTransaction]:
        """The transactions that hang in these partitions, among those that nothing was written to for `idle_ms`."""
        latest_ms = self._cluster.clock.now_ms() - idle_ms
        idle = [
            found
            for found in self.open_transactions(partitions)
            if found.producer.last_timestamp_ms is None or found.producer.last_timestamp_ms < latest_ms
        ]
        owners = self.owners(idle)
        suspects = [found for found in idle if found not in owners]
        # Some may have ended while the coordinators were asked: those are not open any more.
        still_open = set(self.open_transactions(found.partition for found in suspects))
        return [found for found in suspects if found in still_open]

    def owners(self, transactions: Collection[OpenTransaction]) -> dict[OpenTransaction, TransactionDescription]:
        """What coordinators know of these transactions; those that hang are left out."""
        producer_ids = {found.producer.producer_id for found in transactions}
        # Without any, the filter would let all pass.
        listed = self.list_transactions(producer_ids=producer_ids) if producer_ids else ()
        described: dict[ProducerId, TransactionDescription] = {}
        for listing in listed:
            try:
                described[listing.producer_id] = self.describe_transaction(listing.transactional_id)
            except UnknownTransactionalId:
                # It was forgotten since.
                continue
        owners: dict[OpenTransaction, TransactionDescription] = {}
        for found in transactions:
            owner = described.get(found.producer.producer_id)
            # A coordinator tells the partitions that it has yet to send the end to.
            if owner is not None and found.partition in owner.partitions:
                owners[found] = owner
        return owners

    def abort(
        self, partition: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int | None
    ) -> None:
        """Ends a transaction in this partition alone, whatever its coordinator thinks: for one that hangs there."""

        def ask(
            connection: BrokerConnection, markers: Mapping[TopicPartition, WritableTxnMarker]
        ) -> Iterator[tuple[TopicPartition, int, None]]:
            response = connection.call(WriteTxnMarkersRequest(markers=list(markers.values())), WriteTxnMarkersResponse)
            for topic in only(response.markers).topics:
                for answer in topic.partitions:
                    yield TopicPartition(TopicName(topic.name), answer.partition_index), answer.error_code, None

        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
            # A partition that never saw a transaction of this producer end knows none; 0 is older than any.
            coordinator_epoch=coordinator_epoch or 0,
        )
        self._cluster.ask_leaders({partition: marker}, ask)


def _check_filters(connection: BrokerConnection, request: ListTransactionsRequest) -> None:
    """A broker that does not know a filter would answer as if there were none."""
    version = connection.version(ListTransactionsRequest)
    if request.transactional_id_pattern is not None and version < _PATTERN_VERSION:
        raise UnsupportedApi(f"the broker at {connection.endpoint} is too old to find transactional ids by a pattern")
    if request.duration_filter != _NO_DURATION and version < _DURATION_VERSION:
        raise UnsupportedApi(f"the broker at {connection.endpoint} is too old to find transactions by their duration")


def _ask_producers(
    connection: BrokerConnection, partitions: Mapping[TopicPartition, object]
) -> Iterator[tuple[TopicPartition, int, tuple[ProducerDescription, ...]]]:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    request = DescribeProducersRequest(
        topics=[TopicRequest(name=name, partition_indexes=indexes) for name, indexes in topics.items()]
    )
    for topic in connection.call(request, DescribeProducersResponse).topics:
        for answer in topic.partitions:
            partition = TopicPartition(TopicName(topic.name), answer.partition_index)
            yield partition, answer.error_code, _producers(answer)


def _producers(answer: PartitionResponse) -> tuple[ProducerDescription, ...]:
    return tuple(
        ProducerDescription(
            ProducerId(producer.producer_id),
            producer.producer_epoch,
            _known(producer.last_sequence),
            _known(producer.last_timestamp),
            _known(producer.coordinator_epoch),
            _known(producer.current_txn_start_offset),
        )
        for producer in answer.active_producers
    )


def _known(number: int) -> int | None:
    return number if number >= 0 else None
