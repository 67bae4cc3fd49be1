"""Readiness of all client sockets of a node, through an epoll of their own.

The event loop sees one descriptor. When it is readable, all clients that are ready are served in one turn, and what
they produced is written before the turn ends: one write per partition, from however many clients.
"""

import asyncio
import select
from collections.abc import Callable
from typing import Protocol

from headwater.listeners.tcp.transport import Transport

# The most clients that are served in one turn, so that timers and other tasks of the loop run, too.
READY_MAX = 256


class Turn(Protocol):
    """Called when a turn begins and ends. In between, received bytes stay where they are."""

    def begin_turn(self) -> None: ...

    def end_turn(self) -> None: ...


class Poller:
    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._epoll = select.epoll()
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._epoll, self._ready)

    def watch(self, transport: Transport, on_readable: Callable[[], None]) -> None:
        descriptor = transport.fileno()
        self._callbacks[descriptor] = on_readable
        self._epoll.register(descriptor, select.EPOLLIN)

    def ignore(self, transport: Transport) -> None:
        descriptor = transport.fileno()
        if self._callbacks.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def close(self) -> None:
        self._loop.remove_reader(self._epoll)
        self._epoll.close()

    def _ready(self) -> None:
        self._turn.begin_turn()
        try:
            for descriptor, _ in self._epoll.poll(0, READY_MAX):
                # A client served earlier in this turn may have ended another's connection.
                on_readable = self._callbacks.get(descriptor)
                if on_readable is not None:
                    on_readable()
        finally:
            self._turn.end_turn()
