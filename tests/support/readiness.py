"""Whether a socket, or another object with a descriptor, can be read from."""

import select
from typing import Protocol


class _HasDescriptor(Protocol):
    def fileno(self) -> int: ...


def is_readable(source: _HasDescriptor, timeout_s: float = 0) -> bool:
    # `select.select` takes no descriptor above 1,023, and a process that runs many tests may have more open.
    poll = select.poll()
    poll.register(source, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))
