"""Offset lookup (ListOffsets): the earliest offset, the end, or the first one at or after a timestamp."""

from collections.abc import Iterable, Iterator, Mapping

from headwater.client.cluster import Cluster
from headwater.client.connection import BrokerConnection
from headwater.ids import TopicName, TopicPartition
from headwater.protocol.messages.records.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

# Special values in the place of a timestamp.
EARLIEST = -2
LATEST = -1

_NOT_FOUND = -1
_CONSUMER = -1


def list_offsets(
    cluster: Cluster, partitions: Iterable[TopicPartition], when: int, *, committed_only: bool = False
) -> dict[TopicPartition, int]:
    """Return each partition's offset for EARLIEST, LATEST or a timestamp in ms. Where all records are older than the
    timestamp, that is the end offset.

    With `committed_only`, LATEST is the last stable offset, where the first open transaction begins.
    """
    offsets = _ask(cluster, dict.fromkeys(partitions, when), committed_only=committed_only)
    beyond = [partition for partition, offset in offsets.items() if offset == _NOT_FOUND]
    return offsets | _ask(cluster, dict.fromkeys(beyond, LATEST), committed_only=committed_only)


def offsets_since(
    cluster: Cluster, times_ms: Mapping[TopicPartition, int], *, committed_only: bool = False
) -> dict[TopicPartition, int | None]:
    """Return each partition's first offset at or after its timestamp; None where all records are older."""
    offsets = _ask(cluster, times_ms, committed_only=committed_only)
    return {partition: None if offset == _NOT_FOUND else offset for partition, offset in offsets.items()}


def _ask(cluster: Cluster, asked: Mapping[TopicPartition, int], *, committed_only: bool) -> dict[TopicPartition, int]:
    def ask(
        connection: BrokerConnection, questions: Mapping[TopicPartition, int]
    ) -> Iterator[tuple[TopicPartition, int, int]]:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for (topic, index), timestamp in questions.items():
            topics.setdefault(topic, []).append(ListOffsetsPartition(partition_index=index, timestamp=timestamp))
        request = ListOffsetsRequest(
            replica_id=_CONSUMER,
            isolation_level=int(committed_only),
            topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
            timeout_ms=cluster.timeout_ms,
        )
        for topic in connection.call(request, ListOffsetsResponse).topics:
            for answer in topic.partitions:
                partition = TopicPartition(TopicName(topic.name), answer.partition_index)
                yield partition, answer.error_code, answer.offset

    return cluster.ask_leaders(asked, ask)
