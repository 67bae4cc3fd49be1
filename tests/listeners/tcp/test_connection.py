"""One connection: replies in order, and back-pressure instead of failure."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from headwater.listeners.tcp.connection import Connection
from headwater.listeners.tcp.transport import PlainTransport
from headwater.protocol.messages.cluster.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headwater.protocol.messages.records.fetch import FetchResponse
from headwater.protocol.messages.records.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from headwater.protocol.messages.records.produce import ProduceResponse
from headwater.protocol.messages.topics.metadata import MetadataRequest, MetadataResponse
from headwater.protocol.wire.framing import FrameReader
from headwater.testing import Broker
from tests.support.broker.on_loop import connection_of, eventually, on_loop, socket_of, sweep
from tests.support.kafka.raw_client import (
    MIB,
    RawClient,
    batch_of,
    fetch_request,
    fill,
    frame,
    padded,
    produce_request,
    records_of,
)

LONG_MS = 600_000
BATCH = batch_of(b"value")


# -- order


def test_pipelined_requests_are_answered_in_order_also_behind_a_long_poll(
    broker: Broker, client: RawClient, topic: str
) -> None:
    waiting = fetch_request({topic: {0: 0}}, wait_ms=LONG_MS)
    with RawClient(broker) as other:
        sent = [
            other.send(ApiVersionsRequest(), 0),
            other.send(waiting, 12),
            other.send(MetadataRequest(topics=[]), 9),
            other.send(produce_request({topic: {1: BATCH}}), 9),
            other.send(ListOffsetsRequest(replica_id=-1, topics=[]), 6),
        ]
        answered = [other.receive(ApiVersionsResponse, 0)[0]]
        partition = broker.node.broker.partition(topic, 0)
        eventually(broker, lambda: partition.watchers)

        client.produce(topic, BATCH)

        correlation_id, fetched = other.receive(FetchResponse, 12)
        answered += [
            correlation_id,
            other.receive(MetadataResponse, 9)[0],
            other.receive(ProduceResponse, 9)[0],
            other.receive(ListOffsetsResponse, 6)[0],
        ]
    assert answered == sent
    assert [record.value for record in records_of(fetched.responses[0].partitions[0])] == [b"value"]


def test_produced_batches_keep_the_order_in_which_they_were_sent(client: RawClient, topic: str) -> None:
    for number in range(50):
        client.send(produce_request({topic: {0: batch_of(b"%d" % number)}}, acks=(-1, 1, 0)[number % 3]), 9)
    for number in range(50):
        if number % 3 != 2:
            _, response = client.receive(ProduceResponse, 9)
            assert response.responses[0].partition_responses[0].base_offset == number

    assert [record.value for record in client.records(topic)] == [b"%d" % number for number in range(50)]


class CountingTransport:
    """Counts the system calls that send."""

    def __init__(self, transport: PlainTransport) -> None:
        self._transport = transport
        self.send_calls = 0

    def send(self, data: bytes | bytearray | memoryview) -> int:
        self.send_calls += 1
        return self._transport.send(data)

    def sendmsg(self, parts: Iterable[bytes | bytearray | memoryview], ancillary: Any, flags: int) -> int:
        self.send_calls += 1
        return self._transport.sendmsg(parts, ancillary, flags)


@pytest.mark.parametrize("acks", [1, -1], ids=["written", "flushed"])
def test_replies_released_by_one_write_or_flush_are_sent_together(
    broker: Broker, client: RawClient, topic: str, acks: int
) -> None:
    client.produce(topic, BATCH)
    transport = CountingTransport(socket_of(broker, client))
    output = connection_of(broker, client)._output
    on_loop(broker, lambda: setattr(output, "_transport", transport))
    client.send_bytes(frame(produce_request({topic: {0: BATCH}}, acks=acks), 9) * 5)
    for offset in range(1, 6):
        response = client.receive(ProduceResponse, 9)[1]
        assert response.responses[0].partition_responses[0].base_offset == offset
    assert on_loop(broker, lambda: transport.send_calls) == 1


def test_a_request_may_arrive_byte_by_byte_or_many_at_once(client: RawClient, topic: str) -> None:
    one = frame(produce_request({topic: {0: BATCH}}), 9)
    for position in range(len(one)):
        client.send_bytes(one[position : position + 1])
    assert client.receive(ProduceResponse, 9)[1].responses[0].partition_responses[0].base_offset == 0

    client.send_bytes(one * 300)
    offsets = [
        client.receive(ProduceResponse, 9)[1].responses[0].partition_responses[0].base_offset for _ in range(300)
    ]
    assert offsets == list(range(1, 301))


def test_a_batch_is_written_before_its_buffer_is_read_into_again() -> None:
    """A connection whose replies were blocked serves a buffered request in the turn in which its socket is read."""
    fetch = frame(fetch_request({"large": {0: 0}}, partition_bytes=64 * MIB), 12)
    first, second = (frame(produce_request({"t": {0: batch_of(one * 500)}}, acks=1), 9) for one in (b"a", b"b"))
    with Broker({"headwater.connection.requests.max": "1"}) as broker, RawClient(broker) as client:
        client.create("t")
        client.create("large")
        fill(client, "large", 16)
        partition = broker.node.broker.partition("t", 0)
        with RawClient(broker, receive_buffer_bytes=4096) as stuck:
            stuck.send_bytes(fetch + first)
            connection = connection_of(broker, stuck)
            eventually(broker, lambda: connection._output._waiting and connection._frames.partial_bytes == len(first))
            stuck.send_bytes(second)

            def go_on() -> None:
                connection._output.parts.clear()
                connection.advance()
                # The connection has staged the first batch; its socket has the second.
                connection._slots.clear()
                connection._resume()
                broker.node.connections._poller._readable()

            on_loop(broker, go_on)
            eventually(broker, lambda: partition._log.end_offset == 2)
        assert [record.value for record in client.records("t")] == [b"a" * 500, b"b" * 500]


# -- back-pressure


def test_a_client_that_never_reads_is_no_longer_read_and_costs_no_memory(
    broker: Broker, client: RawClient, topic: str
) -> None:
    fill(client, topic, 16)
    with RawClient(broker, receive_buffer_bytes=4096) as deaf:
        for _ in range(20):
            deaf.send(fetch_request({topic: {0: 0}}, partition_bytes=64 * MIB), 12)
        connection = connection_of(broker, deaf)
        deaf.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            deaf.socket.sendall(padded(64 * 1024) * 1000)

        held = on_loop(broker, lambda: sum(len(p) for p in connection._output.parts if isinstance(p, bytearray)))
        assert held < 10_000, "records wait in their file, not in memory"
        assert (
            on_loop(broker, lambda: len(connection._slots))
            <= broker.node.broker.config.headwater_connection_requests_max
        )
        assert on_loop(broker, lambda: broker.node.connections.memory.used) < 4 * MIB
        # Other clients are served as before.
        assert client.produce(topic, BATCH).error_code == 0


def test_the_number_of_concurrent_requests_of_a_connection_is_bounded(name: str) -> None:
    with Broker({"headwater.connection.requests.max": "2"}) as broker, RawClient(broker) as client:
        client.create(name)
        with RawClient(broker) as eager:
            sent = [eager.send(fetch_request({name: {0: 0}}, wait_ms=LONG_MS), 12) for _ in range(10)]
            partition = on_loop(broker, lambda: broker.node.broker.partition(name, 0))
            eventually(broker, lambda: len(partition.watchers) == 2)
            assert len(connection_of(broker, eager)._slots) == 2

            client.produce(name, BATCH)

            assert [eager.receive(FetchResponse, 12)[0] for _ in sent] == sent


def test_requests_wait_for_memory_and_are_never_refused(name: str) -> None:
    settings = {"queued.max.request.bytes": str(MIB), "socket.request.max.bytes": str(MIB)}
    with Broker(settings) as broker, RawClient(broker) as client:
        client.create(name)
        server = broker.node.connections
        request = frame(produce_request({name: {0: batch_of(bytes(900_000))}}), 9)
        others = [RawClient(broker) for _ in range(4)]
        try:
            for other in others:
                other.send_bytes(request[:4])
                other.send_bytes(request[4:600_000])
            eventually(broker, lambda: len(server.memory.waiting) >= 2)
            assert client.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == 0, "a small one has room"
            with ThreadPoolExecutor(4) as threads:
                done = [threads.submit(other.send_bytes, request[600_000:]) for other in others]
                offsets = {
                    other.receive(ProduceResponse, 9)[1].responses[0].partition_responses[0].base_offset
                    for other in others
                }
                assert all(one.result() is None for one in done)
            assert offsets == {0, 1, 2, 3}
            assert on_loop(broker, lambda: server.memory.used) <= 2 * MIB
        finally:
            for other in others:
                other.socket.close()
        eventually(broker, lambda: server.connection_count == 1)
        assert on_loop(broker, lambda: server.memory.used) == 0


def capacity(connection: Connection) -> int:
    frames = connection._frames
    assert isinstance(frames, FrameReader)
    return frames.capacity


def test_the_buffer_of_an_idle_connection_shrinks(broker: Broker, client: RawClient, topic: str) -> None:
    connection = connection_of(broker, client)
    client.produce(topic, batch_of(bytes(1_000_000)))
    assert on_loop(broker, lambda: capacity(connection)) >= MIB

    sweep(broker)
    sweep(broker)

    assert on_loop(broker, lambda: capacity(connection)) == 4096
    assert client.produce(topic, BATCH).error_code == 0
