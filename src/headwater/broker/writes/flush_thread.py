"""One thread that flushes, one partition after the other."""

import asyncio
import queue
import threading
from typing import TYPE_CHECKING

from headwater.storage.flush.flush_task import FlushTask

if TYPE_CHECKING:
    from headwater.broker.writes.journal import Completed, Flush


class FlushThread:
    def __init__(self, on_completed: "Completed") -> None:
        self._on_completed = on_completed
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[Flush | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="headwater-flush", daemon=True)
        self._thread.start()

    def begin(self, flush: "Flush") -> None:
        self._queue.put(flush)

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (flush := self._queue.get()) is not None:
            error = _outcome(flush.task)
            try:
                # One by one: a producer on a fast disk does not wait for a slow one.
                self._loop.call_soon_threadsafe(self._on_completed, flush, error)
            except RuntimeError:  # the loop is closed: no producer waits any more
                return
            # The next flush may be long in coming, and references would keep files of deleted topics open until then.
            del flush, error


def _outcome(task: FlushTask) -> Exception | None:
    try:
        task.run()
    except Exception as error:
        # Whatever the error is, the partition must not count as flushed, and the thread must go on for the others.
        return error
    return None
