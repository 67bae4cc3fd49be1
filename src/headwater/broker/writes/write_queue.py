"""The port through which a partition asks to be written and flushed."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headwater.broker.partition import Partition


class WriteQueue(Protocol):
    """Takes a partition's requests to be written or flushed. `journal.py` implements it for all partitions together."""

    def write_soon(self, writer: "Partition", /) -> None: ...

    def flush_soon(self, partition: "Partition") -> None: ...
