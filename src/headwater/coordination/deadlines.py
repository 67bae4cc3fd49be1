"""Deadlines by key: the next one, and which are due.

To move a deadline further away, which every heartbeat does, costs one dictionary entry: the heap keeps the earlier
time, and an entry that comes up too early is pushed back.
"""

from collections.abc import Hashable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)

# Below this size of the heap it is not worth sweeping out the entries of cancelled deadlines.
SWEEP_MIN = 64


class Deadlines(Generic[KeyT]):
    def __init__(self) -> None:
        self._due_ms: dict[KeyT, int] = {}
        # By key, the time of the one heap entry that counts. Other entries of the key are stale and skipped.
        self._queued_ms: dict[KeyT, int] = {}
        self._order = 0
        self._heap: list[tuple[int, int, KeyT]] = []

    def __len__(self) -> int:
        return len(self._due_ms)

    def __contains__(self, key: object) -> bool:
        return key in self._due_ms

    def set(self, key: KeyT, due_ms: int) -> None:
        self._due_ms[key] = due_ms
        queued_ms = self._queued_ms.get(key)
        if queued_ms is None or due_ms < queued_ms:
            self._push(key, due_ms)
            self._sweep()

    def cancel(self, key: KeyT) -> None:
        self._due_ms.pop(key, None)

    def next_ms(self) -> int | None:
        """When the earliest deadline is due; None if there is no deadline."""
        return None if self.next_key() is None else self._heap[0][0]

    def next_key(self) -> KeyT | None:
        heap = self._heap
        while heap:
            queued_ms, _, key = heap[0]
            due_ms = self._due_ms.get(key)
            if self._queued_ms.get(key) != queued_ms or due_ms is None:
                heappop(heap)
                if self._queued_ms.get(key) == queued_ms:
                    del self._queued_ms[key]
            elif due_ms > queued_ms:
                self._order += 1
                self._queued_ms[key] = due_ms
                heapreplace(heap, (due_ms, self._order, key))
            else:
                return key
        return None

    def _push(self, key: KeyT, due_ms: int) -> None:
        # The counter breaks ties, so that keys need no order: those due together come in the order they were pushed.
        self._order += 1
        self._queued_ms[key] = due_ms
        heappush(self._heap, (due_ms, self._order, key))

    def _sweep(self) -> None:
        """Keeps the size of the heap in proportion to the deadlines: members that come and go leave entries behind."""
        if len(self._heap) < SWEEP_MIN or len(self._heap) < 2 * len(self._due_ms):
            return
        self._queued_ms = dict(self._due_ms)
        self._heap = [(due_ms, order, key) for order, (key, due_ms) in enumerate(self._due_ms.items())]
        self._order = len(self._heap)
        heapify(self._heap)
