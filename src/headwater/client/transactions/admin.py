"""Administration of transactions: what coordinators and partitions know about them, and an end for those that hang.

A hanging transaction is open in a partition, but no coordinator knows of it, so that nobody will ever end it. All
records after its start stay invisible to read_committed consumers.
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

# In all other states there is no transaction, or all partitions have the marker that ends it.
OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")

# Limits the size of a request to a broker that leads thousands of partitions.
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
    """`started_ms` is None if there was no transaction yet. `partitions` are those that have not got the end marker
    yet. `published_batch_id` is the last batch that an application of staging writers has published."""

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
    """A producer as a partition knows it; None stands for an unknown value. `coordinator_epoch` is from the marker of
    the last transaction, `transaction_start_offset` is where the open transaction began."""

    producer_id: ProducerId
    epoch: int
    last_sequence: int | None
    last_timestamp_ms: int | None
    coordinator_epoch: int | None
    transaction_start_offset: int | None


class OpenTransaction(NamedTuple):
    """The part of an open transaction that lies in one partition."""

    partition: TopicPartition
    producer: ProducerDescription
    start_offset: int


class TransactionAdmin:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    # -- from coordinators

    def list_transactions(
        self,
        *,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        longer_than_ms: int | None = None,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """Return the transactional ids of all brokers, sorted, with or without an open transaction. Filters are ANDed.

        `longer_than_ms` compares the start of the last transaction, even if that has ended; combine it with `states` to
        find transactions that are open for so long. `pattern` is a regular expression in RE2's syntax for the whole id.
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

    # -- from partitions

    def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, tuple[ProducerDescription, ...]]:
        """Return the producers whose state the leaders of these partitions keep."""
        found: dict[TopicPartition, tuple[ProducerDescription, ...]] = {}
        remaining = iter(sorted(set(partitions)))
        while part := list(islice(remaining, _PARTITIONS_PER_REQUEST_MAX)):
            found |= self._cluster.ask_leaders(dict.fromkeys(part), _ask_producers)
        return found

    def open_transactions(self, partitions: Iterable[TopicPartition]) -> list[OpenTransaction]:
        """Return the transactions that are open in these partitions, sorted by partition and start offset."""
        found = [
            OpenTransaction(partition, producer, producer.transaction_start_offset)
            for partition, producers in self.describe_producers(partitions).items()
            for producer in producers
            if producer.transaction_start_offset is not None
        ]
        return sorted(found, key=lambda each: (each.partition, each.start_offset))

    # -- hanging transactions

    def find_hanging(self, partitions: Iterable[TopicPartition], *, idle_ms: int) -> list[OpenTransaction]:
        """Return the hanging transactions of these partitions. Only transactions that have written nothing for
        `idle_ms` are examined."""
        latest_ms = self._cluster.clock.now_ms() - idle_ms
        idle = [
            found
            for found in self.open_transactions(partitions)
            if found.producer.last_timestamp_ms is None or found.producer.last_timestamp_ms < latest_ms
        ]
        owners = self.owners(idle)
        suspects = [found for found in idle if found not in owners]
        # Look again: a suspect may have ended normally while the coordinators were asked.
        still_open = set(self.open_transactions(found.partition for found in suspects))
        return [found for found in suspects if found in still_open]

    def owners(self, transactions: Collection[OpenTransaction]) -> dict[OpenTransaction, TransactionDescription]:
        """Return the coordinator's description of each transaction. Hanging transactions have none and are left out."""
        producer_ids = {found.producer.producer_id for found in transactions}
        # An empty filter would match every producer.
        listed = self.list_transactions(producer_ids=producer_ids) if producer_ids else ()
        described: dict[ProducerId, TransactionDescription] = {}
        for listing in listed:
            try:
                described[listing.producer_id] = self.describe_transaction(listing.transactional_id)
            except UnknownTransactionalId:
                # It has expired since the listing.
                continue
        owners: dict[OpenTransaction, TransactionDescription] = {}
        for found in transactions:
            owner = described.get(found.producer.producer_id)
            # A coordinator lists the partitions that it still has to send the end marker to.
            if owner is not None and found.partition in owner.partitions:
                owners[found] = owner
        return owners

    def abort(
        self, partition: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int | None
    ) -> None:
        """Abort a hanging transaction: write an abort marker to this partition, without asking the coordinator."""

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
            # None if no transaction of this producer has ended in the partition. 0 is older than any coordinator's
            # epoch.
            coordinator_epoch=coordinator_epoch or 0,
        )
        self._cluster.ask_leaders({partition: marker}, ask)


def _check_filters(connection: BrokerConnection, request: ListTransactionsRequest) -> None:
    """Refuse filters that the broker is too old to know: it would ignore them and return too much."""
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
