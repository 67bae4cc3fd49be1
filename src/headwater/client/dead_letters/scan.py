"""Reads what a topic holds up to its present ends, one partition after the other: the order is always the same, so that
a reader can go on where it stopped."""

from collections.abc import Iterator, Mapping, Sequence

from headwater.client.cluster import Cluster
from headwater.client.consumer import ConsumedRecord, Consumer
from headwater.client.errors import OffsetOutOfRange
from headwater.client.offsets import EARLIEST, LATEST, list_offsets, offsets_since
from headwater.ids import TopicName, TopicPartition


class OffsetSpan(dict[TopicPartition, tuple[int, int]]):
    """The first offset and the one behind the last, of each partition that has records between them."""

    @property
    def size(self) -> int:
        return sum(end - start for start, end in self.values())


def span_of(
    cluster: Cluster, name: str, *, since_ms: int | None = None, after: tuple[int, int] | None = None
) -> OffsetSpan:
    """All committed records that are there now; with `since_ms`, without older ones at the beginning of a partition;
    with `after`, those behind this partition and offset."""
    cluster.forget([name])
    partitions = [TopicPartition(TopicName(name), each.index) for each in cluster.topic(name).partitions]
    ends = list_offsets(cluster, partitions, LATEST, committed_only=True)
    starts = list_offsets(cluster, partitions, EARLIEST)
    if since_ms is not None:
        found = offsets_since(cluster, dict.fromkeys(partitions, since_ms))
        starts = {each: max(starts[each], ends[each] if (first := found[each]) is None else first) for each in starts}
    span = OffsetSpan()
    for each in partitions:
        start = starts[each]
        if after is not None:
            if each.partition < after[0]:
                continue
            if each.partition == after[0]:
                start = max(start, after[1] + 1)
        if start < ends[each]:
            span[each] = start, ends[each]
    return span


def scan(cluster: Cluster, span: Mapping[TopicPartition, tuple[int, int]]) -> Iterator[ConsumedRecord]:
    """Records that retention removes meanwhile are passed over."""
    for partition, (start, end) in sorted(span.items()):
        yield from _scan_partition(cluster, partition, start, end)


def record_at(cluster: Cluster, partition: TopicPartition, offset: int) -> ConsumedRecord | None:
    start = list_offsets(cluster, [partition], EARLIEST)[partition]
    end = list_offsets(cluster, [partition], LATEST, committed_only=True)[partition]
    if not start <= offset < end:
        return None
    return next(_scan_partition(cluster, partition, offset, offset + 1), None)


def _scan_partition(cluster: Cluster, partition: TopicPartition, start: int, end: int) -> Iterator[ConsumedRecord]:
    consumer = Consumer(cluster, {partition: start}, committed_only=True)
    while consumer.positions[partition] < end:
        try:
            records: Sequence[ConsumedRecord] = consumer.poll()
        except OffsetOutOfRange as error:
            # The position was between the bounds when they were asked for: what lay there is gone now.
            if error.offset > error.latest:
                raise
            consumer.positions[partition] = error.earliest
            continue
        for record in records:
            if record.offset < end:
                yield record
