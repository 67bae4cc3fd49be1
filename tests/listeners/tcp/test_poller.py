"""The loop goes on serving clients by itself, and still does all that asyncio promises."""

import asyncio
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Self

import pytest

from headwater.listeners.tcp.poller import Ready, ServingLoop


@pytest.fixture
def loop() -> Iterator[ServingLoop]:
    loop = ServingLoop()
    yield loop
    loop.close()


class BusyClients:
    """Clients of which `count` are always ready, so that the loop never waits."""

    def __init__(self, loop: ServingLoop, count: int = 1) -> None:
        self._stack = ExitStack()
        self._epoll = self._stack.enter_context(select.epoll())
        self._loop = loop
        self.turns = 0
        # What else is done in the next turn.
        self.act: Callable[[], object] | None = None
        for _ in range(count):
            near, far = (self._stack.enter_context(each) for each in socket.socketpair())
            far.send(b"x")
            self._epoll.register(near, select.EPOLLIN)

    def serve(self, ready: Ready) -> None:
        assert ready
        self.turns += 1
        act, self.act = self.act, None
        if act is not None:
            act()

    def __enter__(self) -> Self:
        self._loop.serve_clients(self._epoll, self.serve)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.stop_serving()
        self._stack.close()


async def next_turn(clients: BusyClients, act: Callable[[], object]) -> None:
    """Returns when the turn is over in which `act` runs."""
    done = asyncio.get_running_loop().create_future()

    def once() -> None:
        act()
        done.set_result(None)

    clients.act = once
    await done


def test_turns_follow_each_other_without_a_turn_of_asyncio(loop: ServingLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    process_events: Callable[[Any], None] = getattr(loop, "_process_events")  # noqa: B009 (asyncio does not declare it)
    turns_of_asyncio = 0

    def counting(events: Any) -> None:
        nonlocal turns_of_asyncio
        turns_of_asyncio += 1
        process_events(events)

    monkeypatch.setattr(loop, "_process_events", counting)

    async def run() -> None:
        with BusyClients(loop, 3) as clients:
            done = loop.create_future()

            def count_down() -> None:
                if clients.turns == 50:
                    done.set_result(None)
                else:
                    clients.act = count_down

            clients.act = count_down
            await done

    loop.run_until_complete(run())
    assert turns_of_asyncio < 10


def test_a_timer_that_was_set_before_or_by_a_turn_is_kept(loop: ServingLoop) -> None:
    async def run() -> list[str]:
        with BusyClients(loop) as clients:
            called: list[str] = []
            loop.call_later(0.02, called.append, "before")
            await next_turn(clients, lambda: loop.call_later(0.01, called.append, "by a turn"))
            while len(called) < 2:
                await asyncio.sleep(0.01)
            return called

    assert loop.run_until_complete(run()) == ["by a turn", "before"]


def test_calls_from_other_threads_are_made(loop: ServingLoop) -> None:
    async def run() -> None:
        with BusyClients(loop):
            called = asyncio.Event()
            threading.Thread(target=lambda: loop.call_soon_threadsafe(called.set)).start()
            await called.wait()
            assert await loop.run_in_executor(None, lambda: 7) == 7

    loop.run_until_complete(run())


def test_other_sockets_of_the_loop_are_served_beside_the_clients(loop: ServingLoop) -> None:
    async def run() -> bytes:
        with BusyClients(loop, 300), ExitStack() as stack:
            near, far = (stack.enter_context(each) for each in socket.socketpair())
            near.setblocking(False)
            far.send(b"hello")
            return await loop.sock_recv(near, 10)

    assert loop.run_until_complete(run()) == b"hello"


def test_an_error_in_a_turn_is_logged_and_the_next_turn_comes(loop: ServingLoop) -> None:
    reported: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: reported.append(context))

    async def run() -> None:
        with BusyClients(loop) as clients:
            clients.act = lambda: 1 // 0
            while not reported:
                await asyncio.sleep(0)
            await next_turn(clients, lambda: None)

    loop.run_until_complete(run())
    (context,) = reported
    assert isinstance(context["exception"], ZeroDivisionError)


def test_without_clients_it_is_the_loop_of_asyncio(loop: ServingLoop) -> None:
    async def run() -> str:
        with BusyClients(loop):
            pass
        return await asyncio.wait_for(asyncio.sleep(0.001, "done"), 10)

    assert loop.run_until_complete(run()) == "done"


def test_clients_may_stop_being_served_in_a_turn(loop: ServingLoop) -> None:
    async def run() -> None:
        with BusyClients(loop) as clients:
            await next_turn(clients, loop.stop_serving)
            turns = clients.turns
            await asyncio.sleep(0.01)
            assert clients.turns == turns

    loop.run_until_complete(run())
