"""Misbehaving connections: slow, idle, never reading, half closed, or simply too many."""

import socket
from collections.abc import Callable
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path

import pytest

from headwater.protocol.messages.cluster.api_versions import ApiVersionsRequest
from tests.faults.hostile.flooding import flood, vanish
from tests.faults.hostile.watching import MIB, Bystander, WatchedBroker, watched
from tests.support.broker.processes import wait_until
from tests.support.kafka.raw_client import RawClient, batch_of, fetch_request, fill, frame, padded
from tests.support.readiness import is_readable

SHORT_MS = "500"
FLOOD = 2000


def test_idle_connections_by_the_thousand_cost_little(tmp_path: Path) -> None:
    assert flood(tmp_path, FLOOD).connections == FLOOD


def opened(broker: WatchedBroker, stack: ExitStack, count: int) -> list[RawClient]:
    return [stack.enter_context(RawClient(broker)) for _ in range(count)]


def is_closed(client: RawClient) -> bool:
    return is_readable(client.socket) and client.is_closed()


def only_the_bystander_is_left(broker: WatchedBroker) -> Callable[[], bool]:
    return lambda: broker.connection_count() == 1


@pytest.mark.parametrize("begun", [1, 4, 20, 5000], ids="{} bytes of a request".format)
def test_connections_that_send_a_byte_at_a_time_are_closed(tmp_path: Path, begun: int) -> None:
    settings = {"headwater.request.read.timeout.ms": SHORT_MS}
    request = padded(100_000)
    with watched(tmp_path, settings) as broker, Bystander(broker) as bystander, ExitStack() as stack:
        clients = opened(broker, stack, 50)
        for client in clients:
            client.send_bytes(request[:begun])
        sent = begun

        def drip() -> bool:
            nonlocal sent
            for client in clients:
                try:
                    client.socket.send(request[sent : sent + 1])
                except ConnectionError:
                    continue
            sent += 1
            return all(map(is_closed, clients))

        wait_until(drip, "a client that drips is served for ever")
        bystander.check()


def test_half_closed_and_reset_connections_are_closed(tmp_path: Path) -> None:
    settings = {"connections.max.idle.ms": SHORT_MS, "headwater.request.read.timeout.ms": SHORT_MS}
    with watched(tmp_path, settings) as broker, Bystander(broker) as bystander, ExitStack() as stack:
        with RawClient(broker) as client:
            client.create("quiet")
        waiting = frame(fetch_request({"quiet": {0: 0}}, wait_ms=2**31 - 1), 12)
        quick = [b"", b"\x00", waiting[:30], frame(ApiVersionsRequest(), 0) * 100]
        for client, beginning in zip(opened(broker, stack, len(quick)), quick, strict=True):
            client.send_bytes(beginning)
        # More requests than are handled at once, so that the broker has stopped reading when the client disconnects.
        for beginning in [*quick, waiting, waiting * 300]:
            ending, reset = opened(broker, stack, 2)
            ending.send_bytes(beginning)
            ending.socket.shutdown(socket.SHUT_WR)
            reset.send_bytes(beginning)
            vanish(reset)
        wait_until(only_the_bystander_is_left(broker), "connections of clients that have gone stay open")
        bystander.check()


def test_clients_that_never_read_hold_no_memory_and_are_closed(tmp_path: Path) -> None:
    settings = {"headwater.response.write.timeout.ms": SHORT_MS}
    with watched(tmp_path, settings) as broker, Bystander(broker) as bystander, ExitStack() as stack:
        with RawClient(broker) as client:
            client.create("much")
            fill(client, "much", 32)
        ask_much = frame(fetch_request({"much": {0: 0}}, partition_bytes=64 * MIB), 12)
        before = broker.memory_bytes()
        broker.forget_memory_peak()
        for client in opened(broker, stack, 50):
            client.send_bytes(ask_much * 50)
        bystander.check()
        wait_until(only_the_bystander_is_left(broker), "clients that never read stay connected")
        assert broker.memory_peak_bytes() - before < 48 * MIB


def test_memory_of_unfinished_requests_stays_within_its_limit(tmp_path: Path) -> None:
    memory_bytes = 4 * MIB
    settings = {
        "queued.max.request.bytes": str(memory_bytes),
        "socket.request.max.bytes": str(memory_bytes),
        "headwater.request.read.timeout.ms": SHORT_MS,
    }
    with watched(tmp_path, settings) as broker, Bystander(broker) as bystander, ExitStack() as stack:
        before = broker.memory_bytes()
        broker.forget_memory_peak()
        clients = opened(broker, stack, 40)
        for client in clients:
            client.socket.setblocking(False)
            # As much as the kernel accepts; the broker need not read it.
            client.socket.send(memory_bytes.to_bytes(4, "big") + bytes(MIB))
        bystander.check()
        wait_until(lambda: all(map(is_closed, clients)), "requests that never end are kept")
        # A growing buffer exists twice for a moment, and one request may exceed the limit.
        assert broker.memory_peak_bytes() - before < 5 * memory_bytes
        with RawClient(broker) as client:
            client.create("after")
            assert client.produce("after", batch_of(bytes(MIB // 2))).error_code == 0, "the memory did not come back"


def test_a_frame_of_two_gibibytes_closes_the_connection_at_once(tmp_path: Path) -> None:
    with watched(tmp_path) as broker, Bystander(broker), ExitStack() as stack:
        before = broker.memory_bytes()
        for client, size in zip(opened(broker, stack, 600), cycle([2**31 - 1, -(2**31), 100 * MIB + 1]), strict=False):
            client.send_bytes(size.to_bytes(4, "big", signed=True))
            assert client.is_closed()
        assert broker.memory_bytes() - before < 8 * MIB
