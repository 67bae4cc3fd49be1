"""The event loop of a broker: asyncio's, with a selector that waits for the clients' sockets, too, and serves them.

A turn of asyncio costs a tenth of a small request, and an epoll that lies in another one a second system call. So while
only clients are ready, turn follows turn inside `select`. It returns to asyncio for what asyncio has to do: a file of
its own is ready, a timer is due, or a call was scheduled meanwhile.
"""

import asyncio
import select
import selectors
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Any, TypeAlias

# Descriptors and what is ready there, as epoll gives them.
Ready: TypeAlias = Sequence[tuple[int, int]]

# The most clients that are served in one turn, so that timers and other tasks of the loop run, too.
READY_MAX = 256


class _ServingSelector(selectors.EpollSelector):
    """Waits for the loop's own files by waiting for its own epoll among the clients' sockets."""

    def __init__(self, loop: "ServingLoop") -> None:
        super().__init__()
        self._loop = loop
        self._clients: tuple[select.epoll, Callable[[Ready], None]] | None = None
        # Whether something was scheduled or changed since `select` began.
        self.has_calls = False

    def attach(self, clients: select.epoll, serve: Callable[[Ready], None]) -> None:
        clients.register(self.fileno(), select.EPOLLIN)
        self._clients = clients, serve

    def detach(self) -> None:
        self._clients = None
        self.has_calls = True

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self._clients is None:
            return super().select(timeout)
        clients, serve = self._clients
        own, time = self.fileno(), self._loop.time
        end = None if timeout is None else time() + timeout
        self.has_calls = False
        while True:
            ready = clients.poll(timeout, READY_MAX)
            if ready:
                try:
                    serve(ready)
                except Exception as error:
                    # As asyncio does with an error of a callback.
                    self._loop.call_exception_handler({"message": f"{serve} failed", "exception": error})
            for descriptor, _ in ready:
                if descriptor == own:
                    return super().select(0)
            if self.has_calls:
                return []
            if end is not None:
                timeout = end - time()
                if timeout <= 0:
                    return []


class ServingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._serving = _ServingSelector(self)
        super().__init__(self._serving)

    def serve_clients(self, clients: select.epoll, serve: Callable[[Ready], None]) -> None:
        """Call `serve` when descriptors in `clients` are ready; others may be among them. It must not block."""
        self._serving.attach(clients, serve)

    def stop_serving(self) -> None:
        self._serving.detach()

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:
        self._serving.has_calls = True
        return super().call_soon(callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        self._serving.has_calls = True
        return super().call_at(when, callback, *args, context=context)
