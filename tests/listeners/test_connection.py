"""One connection among many: order, back-pressure, limits, time-outs, and the end."""

import errno
import socket
import struct
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headwater.clock import ManualClock
from headwater.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headwater.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headwater.protocol.messages.fetch import FetchResponse
from headwater.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from headwater.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from headwater.protocol.messages.produce import ProduceResponse
from headwater.storage.disk import Disk, File
from headwater.testing import Broker
from tests.listeners.on_loop import connection_of, eventually, on_loop, sweep
from tests.listeners.raw import RawClient, batch_of, fetch_request, frame, produce_request, records_of

MIB = 1 << 20
LONG_MS = 600_000
BATCH = batch_of(b"value")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def timed(clock: ManualClock) -> Iterator[Broker]:
    """A broker whose time stands still."""
    with Broker({"num.partitions": "1"}, clock=clock) as broker:
        yield broker


def padded(size: int) -> bytes:
    """A request of that size. What stands behind a message is ignored."""
    content = frame(ApiVersionsRequest(), 0)[4:]
    content += bytes(size - 4 - len(content))
    return len(content).to_bytes(4, "big") + content


def fill(client: RawClient, topic: str, mebibytes: int) -> None:
    for _ in range(mebibytes):
        assert client.produce(topic, batch_of(bytes(MIB - 200)), acks=1).error_code == 0


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
    """A client whose replies were stuck is served again in the very turn in which its socket is read again."""
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
                # Its first batch is staged; its socket has the second.
                connection._slots.clear()
                connection._resume()
                broker.node.kafka._poller._ready()

            on_loop(broker, go_on)
            eventually(broker, lambda: partition.log.end_offset == 2)
        assert [record.value for record in client.records("t")] == [b"a" * 500, b"b" * 500]


# -- back-pressure


def test_a_client_that_never_reads_stops_being_read_and_costs_no_memory(
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
        assert on_loop(broker, lambda: broker.node.kafka.request_memory_used) < 4 * MIB
        # Everybody else is served as before.
        assert client.produce(topic, BATCH).error_code == 0


def test_no_more_requests_are_handled_at_once_than_allowed(name: str) -> None:
    with Broker({"headwater.connection.requests.max": "2"}) as broker, RawClient(broker) as client:
        client.create(name)
        with RawClient(broker) as eager:
            sent = [eager.send(fetch_request({name: {0: 0}}, wait_ms=LONG_MS), 12) for _ in range(10)]
            partition = on_loop(broker, lambda: broker.node.broker.partition(name, 0))
            eventually(broker, lambda: len(partition.watchers) == 2)
            assert len(connection_of(broker, eager)._slots) == 2

            client.produce(name, BATCH)

            assert [eager.receive(FetchResponse, 12)[0] for _ in sent] == sent


def test_memory_for_requests_is_waited_for_and_never_refused(name: str) -> None:
    settings = {"queued.max.request.bytes": str(MIB), "socket.request.max.bytes": str(MIB)}
    with Broker(settings) as broker, RawClient(broker) as client:
        client.create(name)
        server = broker.node.kafka
        request = frame(produce_request({name: {0: batch_of(bytes(900_000))}}), 9)
        others = [RawClient(broker) for _ in range(4)]
        try:
            for other in others:
                other.send_bytes(request[:4])
                other.send_bytes(request[4:600_000])
            eventually(broker, lambda: len(server._memory.waiting) >= 2)
            assert client.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == 0, "a small one has room"
            with ThreadPoolExecutor(4) as threads:
                done = [threads.submit(other.send_bytes, request[600_000:]) for other in others]
                offsets = {
                    other.receive(ProduceResponse, 9)[1].responses[0].partition_responses[0].base_offset
                    for other in others
                }
                assert all(one.result() is None for one in done)
            assert offsets == {0, 1, 2, 3}
            assert on_loop(broker, lambda: server.request_memory_used) <= 2 * MIB
        finally:
            for other in others:
                other.socket.close()
        eventually(broker, lambda: server.connection_count == 1)
        assert on_loop(broker, lambda: server.request_memory_used) == 0


def test_a_buffer_shrinks_when_its_connection_rests(broker: Broker, client: RawClient, topic: str) -> None:
    connection = connection_of(broker, client)
    client.produce(topic, batch_of(bytes(1_000_000)))
    assert on_loop(broker, lambda: connection._frames.capacity) >= MIB

    sweep(broker)
    sweep(broker)

    assert on_loop(broker, lambda: connection._frames.capacity) == 4096
    assert client.produce(topic, BATCH).error_code == 0


# -- limits


@pytest.mark.parametrize("setting", ["max.connections", "max.connections.per.ip"])
def test_connections_beyond_the_limit_are_turned_away(setting: str) -> None:
    with Broker({setting: "2"}) as broker:
        with RawClient(broker) as first, RawClient(broker) as second:
            assert first.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == 0
            with RawClient(broker) as third:
                assert third.is_closed()
            assert second.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == 0
        eventually(broker, lambda: broker.node.kafka.connection_count == 0)
        with RawClient(broker) as fourth:
            assert fourth.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == 0


def test_limits_change_while_clients_are_connected(name: str) -> None:
    with Broker() as broker, RawClient(broker) as client:
        client.create(name)
        changed = {"max.connections": "1", "socket.request.max.bytes": "100000", "queued.max.request.bytes": "2000000"}
        broker.call(broker.node.broker.configure_broker(lambda _: changed, validate_only=False))
        sweep(broker)

        with RawClient(broker) as second:
            assert second.is_closed()
        assert client.produce(name, BATCH).error_code == 0
        assert on_loop(broker, lambda: broker.node.kafka._memory.bytes_max) == 2_000_000
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

    server = broker.node.kafka
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
        end = connection_of(broker, client)._socket
        # The kernel doubles what is asked, for its own bookkeeping.
        assert end.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 2 * 65536
        assert end.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 2 * 32768


# -- time-outs


def test_a_request_that_does_not_arrive_in_time_ends_its_connection(timed: Broker, clock: ManualClock) -> None:
    with RawClient(timed) as slow, RawClient(timed) as quick:
        slow.send_bytes(padded(1000)[:10])
        connection = connection_of(timed, slow)
        eventually(timed, lambda: connection._frames.partial_bytes == 10)
        sweep(timed)
        for _ in range(29):
            # A byte now and then is no excuse.
            slow.send_bytes(b"x")
            clock.advance(1000)
            sweep(timed)
        assert not connection.is_closed
        clock.advance(1001)
        sweep(timed)

        assert slow.is_closed()
        assert quick.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == 0


def test_a_large_request_that_flows_gets_the_time_it_needs(timed: Broker, clock: ManualClock) -> None:
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


def test_a_large_request_that_stops_flowing_earns_nothing_by_its_fast_start(timed: Broker, clock: ManualClock) -> None:
    with RawClient(timed) as client:
        client.send_bytes(padded(8 * MIB)[: 7 * MIB])
        connection = connection_of(timed, client)
        eventually(timed, lambda: connection._frames.partial_bytes == 7 * MIB)
        sweep(timed)
        clock.advance(30_000)
        sweep(timed)

        assert client.is_closed()


def test_what_a_request_announces_takes_no_memory_from_others(name: str) -> None:
    settings = {"queued.max.request.bytes": str(MIB), "socket.request.max.bytes": str(MIB)}
    with Broker(settings) as broker, RawClient(broker) as client:
        client.create(name)
        announcing = [RawClient(broker) for _ in range(10)]
        try:
            for one in announcing:
                one.send_bytes(MIB.to_bytes(4, "big") + b"x")
            eventually(broker, lambda: broker.node.kafka.connection_count == 11)
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


def test_an_idle_connection_stays_for_ever_if_so_set(clock: ManualClock) -> None:
    with Broker({"connections.max.idle.ms": "-1"}, clock=clock) as broker, RawClient(broker) as client:
        client.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)
        sweep(broker)
        clock.advance(10**12)
        sweep(broker)

        assert client.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == 0


def test_a_client_that_takes_no_byte_of_its_reply_is_closed(timed: Broker, clock: ManualClock) -> None:
    with RawClient(timed) as client, RawClient(timed, receive_buffer_bytes=4096) as deaf:
        client.create("much")
        fill(client, "much", 16)
        deaf.send(fetch_request({"much": {0: 0}}, partition_bytes=64 * MIB), 12)
        connection = connection_of(timed, deaf)
        eventually(timed, lambda: connection._output._waiting)
        for _ in range(3):
            # As long as it takes some, it may take its time.
            sweep(timed)
            clock.advance(29_000)
            before = on_loop(timed, lambda: connection._output.progress)
            while on_loop(timed, lambda: connection._output.progress) == before:
                deaf.socket.recv(65536)
        eventually(timed, lambda: connection._output._waiting)
        sweep(timed)
        assert not connection.is_closed
        clock.advance(30_000)
        sweep(timed)

        assert connection.is_closed


# -- clients that leave


def test_a_client_that_has_said_all_still_gets_its_answers(broker: Broker, client: RawClient, topic: str) -> None:
    with RawClient(broker) as half:
        half.send(produce_request({topic: {0: BATCH}}), 9)
        half.send(MetadataRequest(topics=[]), 9)
        half.socket.shutdown(socket.SHUT_WR)

        assert half.receive(ProduceResponse, 9)[1].responses[0].partition_responses[0].base_offset == 0
        assert half.receive(MetadataResponse, 9)[1].topics == []
        assert half.is_closed()
    assert client.offset(topic) == 1


def test_a_connection_that_is_reset_is_forgotten(broker: Broker, client: RawClient, topic: str) -> None:
    gone = RawClient(broker)
    gone.send(fetch_request({topic: {0: 0}}, wait_ms=LONG_MS), 12)
    connection = connection_of(broker, gone)
    partition = broker.node.broker.partition(topic, 0)
    eventually(broker, lambda: partition.watchers)
    gone.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    gone.socket.close()

    eventually(broker, lambda: connection.is_closed)
    assert not partition.watchers
    assert client.produce(topic, BATCH).error_code == 0


def test_nothing_waits_for_a_client_that_is_gone(broker: Broker, client: RawClient, topic: str) -> None:
    partition = broker.node.broker.partition(topic, 0)
    with RawClient(broker) as gone:
        gone.send(fetch_request({topic: {0: 0}}, wait_ms=LONG_MS), 12)
        eventually(broker, lambda: partition.watchers)
    eventually(broker, lambda: not partition.watchers)

    assert client.produce(topic, BATCH).error_code == 0


def test_records_sent_without_wish_for_an_answer_outlive_their_sender(
    broker: Broker, client: RawClient, topic: str
) -> None:
    with RawClient(broker) as hasty:
        for _ in range(20):
            hasty.send(produce_request({topic: {0: batch_of(bytes(100_000))}}, acks=0), 9)
    partition = broker.node.broker.partition(topic, 0)
    eventually(broker, lambda: partition.high_watermark == 20)


def test_a_client_that_leaves_while_its_topic_is_created_leaves_a_whole_topic(
    broker: Broker, client: RawClient, name: str
) -> None:
    catalog = broker.node.broker.catalog
    with RawClient(broker) as gone:
        asked = CreatableTopic(name=name, num_partitions=3, replication_factor=1, assignments=[], configs=[])
        gone.send(CreateTopicsRequest(topics=[asked]), 7)
        connection = connection_of(broker, gone)
        eventually(broker, lambda: catalog._turn.locked() or name in catalog.partitions)
        on_loop(broker, connection.close)
    eventually(broker, lambda: name in catalog.topics.by_name)

    described = {topic.name: topic for topic in client.ask(MetadataRequest(topics=None), MetadataResponse, 9).topics}

    assert len(described[name].partitions) == 3


def test_metadata_is_told_while_topics_come_and_go(broker: Broker, name: str) -> None:
    stop = threading.Event()

    def watch() -> int:
        rounds = 0
        with RawClient(broker) as watcher:
            while not stop.is_set():
                topics = watcher.ask(MetadataRequest(topics=None), MetadataResponse, 9).topics
                assert all(topic.partitions and not topic.error_code for topic in topics)
                wanted = MetadataRequestTopic(name=f"{name}-auto-{rounds}")
                (created,) = watcher.ask(MetadataRequest(topics=[wanted]), MetadataResponse, 9).topics
                assert len(created.partitions) == 2
                rounds += 1
        return rounds

    with ThreadPoolExecutor(2) as threads:
        watching = [threads.submit(watch) for _ in range(2)]
        with RawClient(broker) as creator:
            for number in range(20):
                creator.create(f"{name}-{number}", partitions=3)
        stop.set()
        assert all(one.result() for one in watching)


# -- output


class ColdFile(File):
    """A file of which nothing is ever known to be in memory."""

    __slots__ = ()

    def pread_resident(self, length: int, position: int) -> bytes | None:
        return None


class ColdDisk(Disk):
    file_type = ColdFile


class BrokenFile(ColdFile):
    __slots__ = ()

    def warm(self, position: int, length: int) -> None:
        raise OSError(errno.EIO, "input/output error")


class BrokenDisk(Disk):
    file_type = BrokenFile


def test_records_that_are_not_in_memory_are_fetched_all_the_same(name: str) -> None:
    with Broker(disk=ColdDisk()) as broker, RawClient(broker) as client:
        client.create(name, partitions=3)
        for partition in range(3):
            for number in range(10):
                client.produce(name, batch_of(b"%d" % number), partition=partition)
        response = client.ask(fetch_request({name: {0: 0, 1: 0, 2: 5}}), FetchResponse, 12)

        found = [[record.value for record in records_of(data)] for data in response.responses[0].partitions]
        numbers = [b"%d" % number for number in range(10)]
        assert found == [numbers, numbers, numbers[5:]]
        fill(client, name, 12)
        large = client.fetch(name, 10, partition_bytes=64 * MIB)
        assert len(large.records or b"") > 12 * (MIB - 200)


def test_a_file_that_cannot_be_read_costs_one_connection(name: str) -> None:
    with Broker(disk=BrokenDisk()) as broker, RawClient(broker) as client, RawClient(broker) as other:
        client.create(name)
        client.produce(name, BATCH)
        client.send(fetch_request({name: {0: 0}}), 12)

        with pytest.raises(ConnectionError):
            client.receive_frame()
        assert other.offset(name) == 1


def test_a_file_cut_short_behind_our_back_costs_one_connection(broker: Broker, client: RawClient, topic: str) -> None:
    client.produce(topic, batch_of(bytes(500_000)))
    with (broker.data_directory / f"{topic}-0" / f"{0:020}.log").open("r+b") as file:
        file.truncate(1000)
    with RawClient(broker) as reader:
        reader.send(fetch_request({topic: {0: 0}}), 12)
        with pytest.raises(ConnectionError):
            reader.receive_frame()
    assert client.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == 0


# -- start and stop


def test_a_stopping_broker_answers_what_is_under_way_and_ends_long_polls(tmp_path: Path, name: str) -> None:
    broker = Broker({"headwater.shutdown.timeout.ms": "20000"}, data_directory=tmp_path).start()
    with RawClient(broker) as client, RawClient(broker) as waiting, RawClient(broker) as idle:
        client.create(name)
        client.produce(name, BATCH)
        connection_of(broker, idle)
        sent = waiting.send(fetch_request({name: {0: 1}}, wait_ms=LONG_MS), 12)
        partition = broker.node.broker.partition(name, 0)
        eventually(broker, lambda: partition.watchers)
        client.send(produce_request({name: {0: BATCH}}), 9)
        eventually(broker, lambda: partition.log.end_offset == 2 or not partition.watchers)
        broker.stop()

        assert waiting.receive(FetchResponse, 12)[0] == sent
        assert client.receive(ProduceResponse, 9)[1].responses[0].partition_responses[0].base_offset == 1
        assert all(one.is_closed() for one in (client, waiting, idle))
    with Broker(data_directory=tmp_path) as again, RawClient(again) as client:
        assert client.offset(name) == 2


def test_a_client_that_takes_no_reply_does_not_keep_a_broker_from_stopping(name: str) -> None:
    with Broker({"headwater.shutdown.timeout.ms": "50"}) as broker, RawClient(broker) as client:
        client.create(name)
        fill(client, name, 16)
        deaf = RawClient(broker, receive_buffer_bytes=4096)
        deaf.send(fetch_request({name: {0: 0}}, partition_bytes=64 * MIB), 12)
        connection = connection_of(broker, deaf)
        eventually(broker, lambda: connection._output._waiting)
    assert connection.is_closed
    deaf.socket.close()


def test_a_stopping_broker_takes_no_more_clients() -> None:
    with Broker() as broker:
        with RawClient(broker) as client:
            on_loop(broker, broker.node.kafka.stop_accepting)
            assert client.is_closed()
        with pytest.raises(ConnectionRefusedError):
            RawClient(broker)
        on_loop(broker, broker.node.kafka._accept_again)


def test_an_address_in_use_is_told_and_nothing_is_left_behind(broker: Broker, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="ddress already in use"):
        Broker({"listeners": broker.bootstrap_servers}, data_directory=tmp_path).start()
    with Broker(data_directory=tmp_path) as second:
        assert second.bootstrap_servers != broker.bootstrap_servers


def test_a_broker_listens_on_ipv6_and_tells_what_it_is_told_to_tell() -> None:
    settings = {"listeners": "[::1]:0", "advertised.listeners": "broker.example.org:9092"}
    with Broker(settings) as broker:
        assert broker.bootstrap_servers.startswith("[::1]:")
        with socket.create_connection(("::1", broker.node.kafka.port)) as plain:
            plain.sendall(frame(MetadataRequest(topics=[]), 9))
            assert b"broker.example.org" in plain.recv(65536)


def test_a_connection_that_is_gone_before_it_is_admitted_is_forgotten(timed: Broker) -> None:
    gone = socket.socket()

    on_loop(timed, lambda: timed.node.kafka._admit(gone, "127.0.0.1"))

    assert gone.fileno() == -1
    assert on_loop(timed, lambda: timed.node.kafka.connection_count) == 0
