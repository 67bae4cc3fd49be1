"""Readiness of all client sockets of a node, through an epoll of their own.

All clients that are ready are served in one turn, and what they produced is written before the turn ends: one write per
partition, from however many clients. A `ServingLoop` waits for that epoll itself; any other event loop sees it as one
descriptor that becomes readable.
"""

import asyncio
import select
from collections.abc import Callable
from typing import Protocol

from headwater.listeners.tcp.event_loop import READY_MAX, Ready, ServingLoop


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
