"""Limits of connections: their number, time-outs, and memory."""

import errno
import socket

import pytest

from headwater.clock import ManualClock
from headwater.protocol.messages.cluster.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headwater.testing import Broker
from tests.support.broker.on_loop import acceptor_of, connection_of, eventually, on_loop, socket_of, sweep
from tests.support.kafka.raw_client import (
    MIB,
    RawClient,
    batch_of,
    fetch_request,
    fill,
    padded,
)

LONG_MS = 600_000
BATCH = batch_of(b"value")


# -- limits


@pytest.mark.parametrize("setting", ["max.connections", "max.connections.per.ip"])
def test_connections_beyond_the_limit_are_turned_away(setting: str) -> None:
    with Broker({setting: "2"}) as broker:
        with RawClient(broker) as first, RawClient(broker) as second:
            assert first.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == 0
            with RawClient(broker) as third:
                assert third.is_closed()
            assert second.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == 0
        eventually(broker, lambda: broker.node.connections.connection_count == 0)
        with RawClient(broker) as fourth:
            assert fourth.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == 0


def test_limits_change_while_clients_are_connected(name: str) -> None:
    with Broker() as broker, RawClient(broker) as client:
        client.create(name)
        changed = {"max.connections": "1", "socket.request.max.bytes": "100000", "queued.max.request.bytes": "2000000"}
        broker.call(broker.node.broker._effective.change_broker(lambda _: changed, validate_only=False))
        sweep(broker)

        with RawClient(broker) as second:
            assert second.is_closed()
        assert client.produce(name, BATCH).error_code == 0
        assert on_loop(broker, lambda: broker.node.connections.memory.bytes_max) == 2_000_000
        client.send_bytes((100_001).to_bytes(4, "big"))
        assert client.is_closed()


def test_a_broker_out_of_file_descriptors_accepts_again_when_it_has_some(broker: Broker) -> None:
    class Exhausted:
        def __init__(self, listening: socket.socket) -> None:
            self.listening = listening

        def fileno(self) -> int:
            return self.listening.fileno()

        def accept(self) -> None:
            raise OSError(errno.EMFILE, "too many open files")

    server = acceptor_of(broker)
    listening = server._listening
    assert listening is not None

    def exhaust() -> None:
        server._listening = Exhausted(listening)  # pyright: ignore[reportAttributeAccessIssue]
        server._accept()
        server._listening = listening

    on_loop(broker, exhaust)
    with RawClient(broker) as waiting:
        waiting.send(ApiVersionsRequest(), 0)
        on_loop(broker, server._accept_again)
        assert waiting.receive(ApiVersionsResponse, 0)[1].error_code == 0


def test_socket_buffers_are_as_large_as_asked() -> None:
    settings = {"socket.send.buffer.bytes": "65536", "socket.receive.buffer.bytes": "32768"}
    with Broker(settings) as broker, RawClient(broker) as client:
        end = socket_of(broker, client)
        # The kernel doubles the requested size, for its own bookkeeping.
        assert end.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 2 * 65536
        assert end.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 2 * 32768


# -- time-outs


def test_a_request_that_does_not_arrive_in_time_closes_its_connection(timed: Broker, clock: ManualClock) -> None:
    with RawClient(timed) as slow, RawClient(timed) as quick:
        slow.send_bytes(padded(1000)[:10])
        connection = connection_of(timed, slow)
        eventually(timed, lambda: connection._frames.partial_bytes == 10)
        sweep(timed)
        for _ in range(29):
            # A byte now and then does not extend the time-out.
            slow.send_bytes(b"x")
            clock.advance(1000)
            sweep(timed)
        assert not connection.is_closed
        clock.advance(1001)
        sweep(timed)

        assert slow.is_closed()
        assert quick.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == 0


def test_a_large_request_that_keeps_arriving_gets_more_time(timed: Broker, clock: ManualClock) -> None:
    with RawClient(timed) as client:
        request = padded(8 * MIB)
        connection = connection_of(timed, client)
        for count in range(1, 8):
            client.send_bytes(request[(count - 1) * MIB : count * MIB])
            eventually(timed, lambda received=count * MIB: connection._frames.partial_bytes == received)
            clock.advance(10_000)
            sweep(timed)
        client.send_bytes(request[7 * MIB :])

        assert client.receive(ApiVersionsResponse, 0)[1].error_code == 0


def test_a_large_request_that_stalls_is_closed_despite_its_fast_start(timed: Broker, clock: ManualClock) -> None:
    with RawClient(timed) as client:
        client.send_bytes(padded(8 * MIB)[: 7 * MIB])
        connection = connection_of(timed, client)
        eventually(timed, lambda: connection._frames.partial_bytes == 7 * MIB)
        sweep(timed)
        clock.advance(30_000)
        sweep(timed)

        assert client.is_closed()


def test_announced_request_sizes_take_no_memory_from_others(name: str) -> None:
    settings = {"queued.max.request.bytes": str(MIB), "socket.request.max.bytes": str(MIB)}
    with Broker(settings) as broker, RawClient(broker) as client:
        client.create(name)
        announcing = [RawClient(broker) for _ in range(10)]
        try:
            for one in announcing:
                one.send_bytes(MIB.to_bytes(4, "big") + b"x")
            eventually(broker, lambda: broker.node.connections.connection_count == 11)
            assert client.produce(name, batch_of(bytes(500_000))).error_code == 0
        finally:
            for one in announcing:
                one.socket.close()


def test_an_idle_connection_is_closed(timed: Broker, clock: ManualClock) -> None:
    with RawClient(timed) as client, RawClient(timed) as waiting:
        client.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)
        client.create("idle")
        waiting.send(fetch_request({"idle": {0: 0}}, wait_ms=LONG_MS), 12)
        partition = timed.node.broker.partition("idle", 0)
        eventually(timed, lambda: partition.watchers)
        sweep(timed)
        clock.advance(599_999)
        sweep(timed)
        assert not connection_of(timed, client).is_closed
        clock.advance(1)
        sweep(timed)

        assert client.is_closed()
        assert not connection_of(timed, waiting).is_closed, "who waits for records is not idle"


def test_an_idle_connection_stays_open_without_an_idle_time_out(clock: ManualClock) -> None:
    with Broker({"connections.max.idle.ms": "-1"}, clock=clock) as broker, RawClient(broker) as client:
        client.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)
        sweep(broker)
        clock.advance(10**12)
        sweep(broker)

        assert client.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == 0


def test_a_client_that_reads_no_byte_of_its_reply_is_closed(timed: Broker, clock: ManualClock) -> None:
    with RawClient(timed) as client, RawClient(timed, receive_buffer_bytes=4096) as deaf:
        client.create("much")
        fill(client, "much", 16)
        deaf.send(fetch_request({"much": {0: 0}}, partition_bytes=64 * MIB), 12)
        connection = connection_of(timed, deaf)
        eventually(timed, lambda: connection._output._waiting)
        for _ in range(3):
            # A client that keeps reading may take its time.
            sweep(timed)
            clock.advance(29_000)
            before = on_loop(timed, lambda: connection._output.sent_bytes)
            while on_loop(timed, lambda: connection._output.sent_bytes) == before:
                deaf.socket.recv(65536)
        eventually(timed, lambda: connection._output._waiting)
        sweep(timed)
        assert not connection.is_closed

        def is_given_up() -> bool:
            # The bytes that still fitted into the socket buffers when the client stopped count as progress once.
            clock.advance(30_000)
            timed.node.connections.sweep()
            return connection.is_closed

        eventually(timed, is_given_up)
