"""Reads of broker state on its own event loop, with waiting until a condition holds."""

import time
from collections.abc import Callable
from typing import TypeVar

from headwater.listeners.tcp.acceptor import Acceptor
from headwater.listeners.tcp.connection import Connection
from headwater.listeners.tcp.listener import TcpListener
from headwater.listeners.tcp.transport import PlainTransport
from headwater.testing import Broker
from tests.support.kafka.raw_client import TIMEOUT_S, RawClient

T = TypeVar("T")


def on_loop(broker: Broker, look: Callable[[], T]) -> T:
    async def run() -> T:
        return look()

    return broker.call(run())


def eventually(broker: Broker, condition: Callable[[], object]) -> None:
    """Waits until `condition` holds, checking it once per turn of the broker's loop."""
    deadline = time.monotonic() + TIMEOUT_S
    while not on_loop(broker, condition):
        assert time.monotonic() < deadline, "it never came to be"


def connection_of(broker: Broker, client: RawClient) -> Connection:
    """The broker's end of a client's connection."""
    address = client.socket.getsockname()
    found: list[Connection] = []

    def look() -> bool:
        found[:] = [one for one in broker.node.connections._connections if one.peer == address]
        return bool(found)

    eventually(broker, look)
    return found[0]


def socket_of(broker: Broker, client: RawClient) -> PlainTransport:
    transport = connection_of(broker, client)._transport
    assert isinstance(transport, PlainTransport)
    return transport


def acceptor_of(broker: Broker) -> Acceptor:
    """The acceptor of the broker's first listener."""
    listener = broker.node.listeners[0]
    assert isinstance(listener, TcpListener)
    return listener._acceptor


def stop_accepting(broker: Broker) -> None:
    """Stops accepting clients, as the broker does when it begins to stop."""
    for listener in broker.node.listeners:
        listener.stop_accepting()
    broker.node.connections.drain()


def sweep(broker: Broker) -> None:
    on_loop(broker, broker.node.connections.sweep)
