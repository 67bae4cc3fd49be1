"""A look at the broker from its own event loop, and the patience to see what happens soon."""

import time
from collections.abc import Callable
from typing import TypeVar

from headwater.listeners.tcp.connection import Connection
from headwater.testing import Broker
from tests.support.kafka.raw_client import TIMEOUT_S, RawClient

T = TypeVar("T")


def on_loop(broker: Broker, look: Callable[[], T]) -> T:
    async def run() -> T:
        return look()

    return broker.call(run())


def eventually(broker: Broker, condition: Callable[[], object]) -> None:
    """Looks once per turn of the broker's loop until it is so."""
    deadline = time.monotonic() + TIMEOUT_S
    while not on_loop(broker, condition):
        assert time.monotonic() < deadline, "it never came to be"


def connection_of(broker: Broker, client: RawClient) -> Connection:
    """The broker's end of a client's connection."""
    address = client.socket.getsockname()
    found: list[Connection] = []

    def look() -> bool:
        found[:] = [one for one in broker.node.kafka._connections if one.peer == address]
        return bool(found)

    eventually(broker, look)
    return found[0]


def sweep(broker: Broker) -> None:
    on_loop(broker, broker.node.kafka.sweep)
