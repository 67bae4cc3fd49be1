"""Flushes done by the kernel's own threads (Linux AIO), for a third of the CPU that a thread of ours takes.

The kernel takes a flush that is no more than one fdatasync; any other goes to the flush thread. The kernel's threads do
not always get a core when all cores are busy, so the flush thread also repeats each flush that is late. Both may then
complete, the kernel's much later.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from headwater.storage.disk import File

if TYPE_CHECKING:
    from headwater.broker.writes.journal import Completed, Flush, FlushEngine
    from headwater.storage.flush.kernel_sync import KernelSync

logger = logging.getLogger(__name__)

PENDING_MAX = 1024
# Long for a disk, short for a producer that waits. A late flush is noticed after once to twice this time.
LATE_S = 0.1


class KernelEngine:
    def __init__(self, on_completed: "Completed", thread: "FlushEngine") -> None:
        self._on_completed = on_completed
        self._thread = thread
        self._loop = asyncio.get_running_loop()
        self._kernel: KernelSync | None = None
        self._was_opened = False
        self._count = 0
        # By token, in the order in which they were submitted.
        self._pending: dict[int, Flush] = {}
        self._late: set[int] = set()
        self._timer: asyncio.TimerHandle | None = None
        # The number of flushes that were submitted before the last check for late ones.
        self._count_checked = 0

    def begin(self, flush: "Flush") -> None:
        if not self._submit(flush):
            self._thread.begin(flush)

    def _submit(self, flush: "Flush") -> bool:
        """Whether the kernel has taken the flush."""
        file = flush.task.sole_file
        # A subclass of File (a test's faulty or recording disk) has a sync of its own.
        if file is None or type(file) is not File:
            return False
        if not self._was_opened:
            self._was_opened = True
            self._kernel = self._open()
        if self._kernel is None or self._late:
            return False
        try:
            self._kernel.submit(file, self._count + 1)
        except OSError as error:
            # Nothing was begun: too many are under way, or this file system takes none.
            logger.debug("flush of %s is left to the thread: %s", flush.partition.id, error)
            return False
        self._count += 1
        self._pending[self._count] = flush
        if self._timer is None:
            self._timer = self._loop.call_later(LATE_S, self._repeat_late)
        return True

    def _open(self) -> "KernelSync | None":
        # Late import: a broker without acks=all producers does without it, and start-up time counts.
        from headwater.storage.flush.kernel_sync import KernelSync  # noqa: PLC0415

        try:
            kernel = KernelSync(PENDING_MAX)
        except OSError as error:
            logger.info("flushes are left to a thread, for the kernel does not take them: %s", error)
            return None
        self._loop.add_reader(kernel, self._ready)
        return kernel

    def _ready(self) -> None:
        assert self._kernel is not None
        for token, error in self._kernel.collect():
            self._late.discard(token)
            self._on_completed(self._pending.pop(token), error)

    def _repeat_late(self) -> None:
        """Have the thread repeat the flushes that were already pending at the last check."""
        for token, flush in self._pending.items():
            if token > self._count_checked:
                break
            if token not in self._late:
                if not self._late:
                    logger.info("the kernel is late with the flush of %s; a thread takes over", flush.partition.id)
                self._late.add(token)
                self._thread.begin(flush)
        self._count_checked = self._count
        self._timer = self._loop.call_later(LATE_S, self._repeat_late) if self._pending else None

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._kernel is not None:
            self._loop.remove_reader(self._kernel)
            self._kernel.close()
            self._kernel = None
        self._thread.close()
