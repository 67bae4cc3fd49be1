"""Readiness of all client sockets of one listener, through an epoll of its own.

The event loop sees one descriptor. When it is readable, every client that is ready is served in one go, and what they
produced is written before the turn ends: one write per partition, however many clients it came from.
"""

import asyncio
import select
from collections.abc import Callable
from typing import Protocol

from headwater.listeners.tcp.transport import Transport

# Clients served in one turn at most, so that timers and other listeners get theirs.
READY_MAX = 256


class Turn(Protocol):
    """Told when a turn begins and ends; between the two, received bytes stay where they are."""

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
