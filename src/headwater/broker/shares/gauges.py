"""The state of share-partitions as metrics, read from them when the metrics are read."""

from collections.abc import Callable, Iterable, Iterator

from headwater.broker.partition import Partition
from headwater.coordination.shares.commands import ShareStatus
from headwater.metrics import Metrics, Sample


class ShareGauges:
    def __init__(
        self, statuses: Callable[[], Iterable[ShareStatus]], find: Callable[[ShareStatus], Partition | None]
    ) -> None:
        self._statuses = statuses
        self._find = find

    def declare(self, metrics: Metrics) -> None:
        metrics.declare(
            "headwater_share_backlog",
            "gauge",
            "Records that a share group is not done with, by group and partition.",
            lambda: self._samples(lambda status, partition: partition.high_watermark - _first_unfinished(status)),
        )
        metrics.declare(
            "headwater_share_held",
            "gauge",
            "Records that members of a share group hold, by group and partition.",
            lambda: self._samples(lambda status, _: status.acquired_count),
        )
        metrics.declare(
            "headwater_share_dead_letters_waiting",
            "gauge",
            "Dead letters of a share group that are not written yet, by group and partition.",
            lambda: self._samples(lambda status, _: status.letter_count),
        )

    def _samples(self, value: Callable[[ShareStatus, Partition], int]) -> Iterator[Sample]:
        for status in self._statuses():
            partition = self._find(status)
            if partition is not None:
                labels = (
                    ("group", status.id.group_id),
                    ("topic", partition.id.topic),
                    ("partition", str(status.id.partition)),
                )
                yield Sample(labels, max(value(status, partition), 0))


def _first_unfinished(status: ShareStatus) -> int:
    """Where the group would be, if all that is done with came first."""
    return status.start_offset + status.complete_count
