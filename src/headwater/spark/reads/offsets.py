"""The offsets of many partitions: their JSON in Spark's checkpoints, and how the broker resolves bounds to offsets."""

from collections.abc import Collection, Mapping
from typing import Any, TypeAlias

from headwater.client.cluster import Cluster
from headwater.client.offsets import EARLIEST, LATEST, list_offsets, offsets_since
from headwater.errors import ConfigError
from headwater.ids import TopicName, TopicPartition
from headwater.spark.options.bounds import Bound

PartitionOffsets: TypeAlias = dict[TopicPartition, int]


def to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """The format of Spark's Kafka source, so that tools which read checkpoints understand ours too."""
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        topics.setdefault(topic, {})[str(partition)] = offset
    return topics


def from_json(topics: Mapping[str, Any]) -> PartitionOffsets:
    return {
        TopicPartition(TopicName(topic), int(partition)): offset
        for topic, partitions in topics.items()
        for partition, offset in partitions.items()
    }


class OffsetFinder:
    """Asks the broker where partitions begin and end. With `committed_only` they end at the last stable offset."""

    def __init__(self, cluster: Cluster, *, committed_only: bool) -> None:
        self._cluster = cluster
        self._committed_only = committed_only

    def earliest(self, partitions: Collection[TopicPartition]) -> PartitionOffsets:
        return list_offsets(self._cluster, partitions, EARLIEST)

    def latest(self, partitions: Collection[TopicPartition]) -> PartitionOffsets:
        return list_offsets(self._cluster, partitions, LATEST, committed_only=self._committed_only)

    def since(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Each partition's first record at or after its time. None: all records are older."""
        return offsets_since(self._cluster, times_ms, committed_only=self._committed_only)

    def resolve(
        self, bound: Bound, partitions: Collection[TopicPartition], *, late_times_allowed: bool = True
    ) -> PartitionOffsets:
        """An offset for each partition. A bound that names any partition must name all of them.

        A time after all records stands for the partition's end if `late_times_allowed`, else it is an error.
        """
        if bound.offsets:
            _check_named(bound.option, bound.offsets, partitions)
            return self._resolve_offsets(bound.offsets)
        if bound.times_ms:
            _check_named(bound.option, bound.times_ms, partitions)
            return self._resolve_times(bound, bound.times_ms, late_times_allowed=late_times_allowed)
        if bound.when == EARLIEST:
            return self.earliest(partitions)
        if bound.when == LATEST:
            return self.latest(partitions)
        return self._resolve_times(bound, dict.fromkeys(partitions, bound.when), late_times_allowed=late_times_allowed)

    def _resolve_times(
        self, bound: Bound, times_ms: Mapping[TopicPartition, int], *, late_times_allowed: bool
    ) -> PartitionOffsets:
        found = self.since(times_ms)
        late = sorted(partition for partition, offset in found.items() if offset is None)
        if late and not late_times_allowed:
            raise ConfigError(
                f"option {bound.option!r}: no record of {late[0]} is as young as {times_ms[late[0]]}; "
                "to begin at the end then, set 'startingOffsetsByTimestampStrategy' to 'latest'"
            )
        known = {partition: offset for partition, offset in found.items() if offset is not None}
        return known | self.latest(late)

    def _resolve_offsets(self, offsets: Mapping[TopicPartition, int]) -> PartitionOffsets:
        first = [partition for partition, offset in offsets.items() if offset == EARLIEST]
        last = [partition for partition, offset in offsets.items() if offset == LATEST]
        return {**offsets, **self.earliest(first), **self.latest(last)}


def _check_named(option: str, named: Collection[TopicPartition], partitions: Collection[TopicPartition]) -> None:
    missing = sorted(set(partitions) - set(named))
    unknown = sorted(set(named) - set(partitions))
    if missing:
        raise ConfigError(f"option {option!r} must name every partition that is read; {missing[0]} is missing")
    if unknown:
        raise ConfigError(f"option {option!r} names {unknown[0]}, which is none of those that are read")
