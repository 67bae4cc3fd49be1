"""The port through which a partition wakes the fetches that wait for it."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headwater.broker.partition import Partition


class Watcher(Protocol):
    """A fetch in its long poll, which waits for the partition's readable end to move."""

    @property
    def committed_only(self) -> bool:
        """Whether that end is the last stable offset."""
        ...

    def partition_moved(self, partition: "Partition") -> None: ...

    def expire(self) -> None: ...
