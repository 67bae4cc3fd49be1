"""The port through which the journal has flushes run: by a thread, or by the kernel (`headwater.flush.engine`)."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from headwater.storage.flush.flush_task import FlushTask

if TYPE_CHECKING:
    from headwater.broker.partition import Partition


class Flush(NamedTuple):
    partition: "Partition"
    task: FlushTask
    begun_us: int


# Called on the event loop with a flush that ended, and its error if it failed. May be called twice for one flush: the
# kernel engine repeats a late flush in the thread, and both complete.
Completed: TypeAlias = Callable[[Flush, Exception | None], None]


class FlushEngine(Protocol):
    def begin(self, flush: Flush) -> None: ...

    def close(self) -> None:
        """Finish what was begun, then end."""
        ...
