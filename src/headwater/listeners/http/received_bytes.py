"""The bytes of one HTTP connection on their way to its parser, which copies what it keeps.

All connections of a node are served one after the other and share one buffer, so that an idle one costs nothing. What
the parser keeps of a body counts as memory of requests (`queued.max.request.bytes`).
"""

from headwater.listeners.tcp.request_memory import RequestMemory

SCRATCH_BYTES = 64 * 1024


class ReceivedBytes:
    __slots__ = (
        "_fed",
        "_kept_bytes",
        "_memory",
        "_reserved_bytes",
        "_scratch",
        "frame_count",
        "keeps",
        "partial_bytes",
    )

    def __init__(self, scratch: memoryview, memory: RequestMemory) -> None:
        self._scratch = scratch
        self._memory = memory
        self._fed: bytes | None = None
        self._reserved_bytes = 0
        self._kept_bytes = 0
        # Whether the bytes that come are kept: they belong to a body.
        self.keeps = False
        # Of the request that has begun; and how many requests there have been.
        self.partial_bytes = 0
        self.frame_count = 0

    def space(self) -> memoryview | None:
        if self.keeps and not self._reserved_bytes:
            if not self._memory.take(len(self._scratch), self):
                return None
            self._reserved_bytes = len(self._scratch)
        # A view of its own: the connection releases it.
        return self._scratch[:]

    def received(self, count: int) -> None:
        self._fed = bytes(self._scratch[:count])
        self.partial_bytes += count

    def next_frame(self) -> memoryview | None:
        fed, self._fed = self._fed, None
        return None if fed is None else memoryview(fed)

    def keep(self, count: int) -> None:
        """So many bytes of a body are kept until `forget`."""
        covered = min(count, self._reserved_bytes)
        self._reserved_bytes -= covered
        self._kept_bytes += count
        if count > covered:
            # They came along with the head of their request: they are here already, and at most a buffer.
            self._memory.used += count - covered

    def request_ended(self) -> None:
        """A request has arrived whole."""
        self.partial_bytes = 0
        self.frame_count += 1

    def forget(self) -> None:
        """What was kept is not needed any more."""
        self._memory.give_back(self._kept_bytes + self._reserved_bytes, self)
        self._kept_bytes = self._reserved_bytes = 0

    def relax(self) -> None:
        """There is no buffer to give back, but perhaps room that no body needs."""
        if not self.keeps and self._reserved_bytes:
            self._memory.give_back(self._reserved_bytes, self)
            self._reserved_bytes = 0

    def close(self) -> None:
        self.forget()
