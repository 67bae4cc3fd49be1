"""Readiness of all client sockets of a node, through an epoll of their own.

All clients that are ready are served in one turn, and what they produced is written before the turn ends: one write per
partition, from however many clients.

A turn of asyncio costs a tenth of a small request, and an epoll that lies in another one a second system call. So
`ServingLoop` waits for the clients itself, and turn follows turn while only they are ready. It returns to asyncio for
what asyncio has to do: a file of its own is ready, a timer is due, or a call was scheduled meanwhile. Any other event
loop sees the epoll of the clients as one descriptor that becomes readable.
"""

import asyncio
import select
import selectors
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Any, Protocol, TypeAlias

# Descriptors and what is ready there, as epoll gives them.
Ready: TypeAlias = Sequence[tuple[int, int]]

# The most clients that are served in one turn, so that timers and other tasks of the loop run, too.
READY_MAX = 256


class Turn(Protocol):
    """Called when a turn begins and ends. In between, received bytes stay where they are."""

    def begin_turn(self) -> None: ...

    def end_turn(self) -> None: ...


class Watched(Protocol):
    """A socket, whatever encrypts it."""

    def fileno(self) -> int: ...

    def pending(self) -> int: ...


class Poller:
    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._epoll = select.epoll()
        self._callbacks: dict[int, Callable[[], None]] = {}
        # Clients with bytes that are decrypted already.
        self._again: set[int] = set()
        self._loop = asyncio.get_running_loop()
        if isinstance(self._loop, ServingLoop):
            self._loop.serve_clients(self._epoll, self._serve)
        else:
            self._loop.add_reader(self._epoll, self._readable)

    def watch(self, transport: Watched, on_readable: Callable[[], None]) -> None:
        descriptor = transport.fileno()
        self._callbacks[descriptor] = on_readable
        self._epoll.register(descriptor, select.EPOLLIN)
        if transport.pending():
            self.serve_again(transport)

    def await_writable(self, transport: Watched) -> None:
        """Call a watched client when its socket is writable instead, until `await_readable`."""
        self._turn_to(transport, select.EPOLLOUT)

    def await_readable(self, transport: Watched) -> None:
        self._turn_to(transport, select.EPOLLIN)

    def _turn_to(self, transport: Watched, event: int) -> None:
        descriptor = transport.fileno()
        if descriptor in self._callbacks:
            self._epoll.modify(descriptor, event)

    def serve_again(self, transport: Watched) -> None:
        """Call a watched client in the next turn, although its socket need not be readable."""
        if not self._again:
            self._loop.call_soon(self._serve_again)
        self._again.add(transport.fileno())

    def ignore(self, transport: Watched) -> None:
        descriptor = transport.fileno()
        if self._callbacks.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def close(self) -> None:
        if isinstance(self._loop, ServingLoop):
            self._loop.stop_serving()
        else:
            self._loop.remove_reader(self._epoll)
        self._epoll.close()

    def _readable(self) -> None:
        self._serve(self._epoll.poll(0, READY_MAX))

    def _serve(self, ready: Ready) -> None:
        self._turn.begin_turn()
        try:
            for descriptor, _ in ready:
                # A client served earlier in this turn may have ended another's connection.
                on_readable = self._callbacks.get(descriptor)
                if on_readable is not None:
                    on_readable()
        finally:
            self._turn.end_turn()

    def _serve_again(self) -> None:
        descriptors, self._again = self._again, set()
        self._serve([(descriptor, select.EPOLLIN) for descriptor in descriptors])


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
