"""Socket options of TCP connections."""

import socket
from collections.abc import Generator
from contextlib import contextmanager

from headwater import tcp
from headwater.testing import Broker
from tests.support.broker.on_loop import socket_of
from tests.support.kafka.raw_client import RawClient


@contextmanager
def connection(source: str) -> Generator[socket.socket]:
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname(), source_address=(source, 0)),
        listening.accept()[0] as accepted,
    ):
        yield accepted


def congestion_control(connected: socket.socket) -> bytes:
    return connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")


def test_a_local_connection_is_not_paced() -> None:
    with connection("127.0.0.1") as connected:
        tcp.prepare(connected)
        assert congestion_control(connected) == b"reno"
        assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_remote_connection_keeps_the_congestion_control_of_the_system() -> None:
    with connection("127.0.0.2") as connected:
        before = congestion_control(connected)
        tcp.prepare(connected)
        assert congestion_control(connected) == before
        assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_the_broker_prepares_the_connections_of_its_clients() -> None:
    with Broker() as broker, RawClient(broker) as client:
        connected = socket_of(broker, client)
        assert congestion_control(connected) == b"reno"
        assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
