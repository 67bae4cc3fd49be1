"""Connections that end: clients leave, files fail during a send, brokers stop."""

import errno
import socket
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headwater.errors import ErrorCode
from headwater.protocol.messages.cluster.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headwater.protocol.messages.records.fetch import FetchResponse
from headwater.protocol.messages.records.produce import ProduceResponse
from headwater.protocol.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest
from headwater.protocol.messages.topics.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from headwater.storage.disk import Disk, File
from headwater.testing import Broker
from tests.support.broker.on_loop import acceptor_of, connection_of, eventually, on_loop, stop_accepting
from tests.support.kafka import raw_groups
from tests.support.kafka.raw_client import (
    MIB,
    RawClient,
    batch_of,
    fetch_request,
    fill,
    frame,
    produce_request,
    records_of,
)

LONG_MS = 600_000
BATCH = batch_of(b"value")


# -- clients that leave


def test_a_half_closed_client_still_gets_its_replies(broker: Broker, client: RawClient, topic: str) -> None:
    with RawClient(broker) as half:
        half.send(produce_request({topic: {0: BATCH}}), 9)
        half.send(MetadataRequest(topics=[]), 9)
        half.socket.shutdown(socket.SHUT_WR)

        assert half.receive(ProduceResponse, 9)[1].responses[0].partition_responses[0].base_offset == 0
        assert half.receive(MetadataResponse, 9)[1].topics == []
        assert half.is_closed()
    assert client.offset(topic) == 1


def test_a_reset_connection_is_forgotten(broker: Broker, client: RawClient, topic: str) -> None:
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


def test_a_long_poll_ends_when_its_client_disconnects(broker: Broker, client: RawClient, topic: str) -> None:
    partition = broker.node.broker.partition(topic, 0)
    with RawClient(broker) as gone:
        gone.send(fetch_request({topic: {0: 0}}, wait_ms=LONG_MS), 12)
        eventually(broker, lambda: partition.watchers)
    eventually(broker, lambda: not partition.watchers)

    assert client.produce(topic, BATCH).error_code == 0


def test_a_waiting_join_does_not_keep_a_disconnected_clients_connection(
    broker: Broker, client: RawClient, name: str
) -> None:
    """A rebalance may take minutes; the connection closes at once, and the rebalance continues without that client."""
    place = raw_groups.only_member(client, name)
    with RawClient(broker) as gone:
        connection = connection_of(broker, gone)
        gone.send(raw_groups.join_request(name), 3)
        eventually(broker, lambda: connection._slots)

    eventually(broker, lambda: connection.is_closed)
    assert raw_groups.heartbeat(client, name, place) == ErrorCode.REBALANCE_IN_PROGRESS


def test_records_with_acks_0_are_written_after_their_client_disconnected(
    broker: Broker, client: RawClient, topic: str
) -> None:
    with RawClient(broker) as hasty:
        for _ in range(20):
            hasty.send(produce_request({topic: {0: batch_of(bytes(100_000))}}, acks=0), 9)
    partition = broker.node.broker.partition(topic, 0)
    eventually(broker, lambda: partition.high_watermark == 20)


def test_a_topic_is_created_completely_although_its_client_disconnects(
    broker: Broker, client: RawClient, name: str
) -> None:
    metadata = broker.node.broker.metadata
    with RawClient(broker) as gone:
        asked = CreatableTopic(name=name, num_partitions=3, replication_factor=1, assignments=[], configs=[])
        gone.send(CreateTopicsRequest(topics=[asked]), 7)
        connection = connection_of(broker, gone)
        eventually(broker, lambda: metadata.change_lock.locked() or name in metadata.state.by_name)
        on_loop(broker, connection.close)
    eventually(broker, lambda: name in metadata.state.by_name)

    described = {topic.name: topic for topic in client.ask(MetadataRequest(topics=None), MetadataResponse, 9).topics}

    assert len(described[name].partitions) == 3


def test_metadata_is_consistent_while_topics_are_created_and_deleted(broker: Broker, name: str) -> None:
    stop = threading.Event()

    def watch() -> int:
        rounds = 0
        with RawClient(broker) as watcher:
            while not stop.is_set():
                topics = watcher.ask(MetadataRequest(topics=None), MetadataResponse, 9).topics
                assert all(topic.partitions and not topic.error_code for topic in topics)
                wanted = MetadataRequestTopic(name=f"{name}-auto-{rounds}")
                watcher.ask(MetadataRequest(topics=[wanted]), MetadataResponse, 9)
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
    """A file whose bytes never count as resident in the page cache."""

    __slots__ = ()

    def _pread_now(self, length: int, position: int) -> bytes | None:
        return None


class ColdDisk(Disk):
    file_type = ColdFile


class BrokenFile(ColdFile):
    __slots__ = ()

    def warm(self, position: int, length: int) -> None:
        raise OSError(errno.EIO, "input/output error")


class BrokenDisk(Disk):
    file_type = BrokenFile


def test_records_outside_the_page_cache_are_fetched(name: str) -> None:
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


def test_a_file_that_cannot_be_read_closes_only_its_connection(name: str) -> None:
    with Broker(disk=BrokenDisk()) as broker, RawClient(broker) as client, RawClient(broker) as other:
        client.create(name)
        client.produce(name, BATCH)
        client.send(fetch_request({name: {0: 0}}), 12)

        with pytest.raises(ConnectionError):
            client.receive_frame()
        assert other.offset(name) == 1


def test_a_file_truncated_by_another_process_closes_only_its_connection(
    broker: Broker, client: RawClient, topic: str
) -> None:
    client.produce(topic, batch_of(bytes(500_000)))
    with (broker.data_directory / f"{topic}-0" / f"{0:020}.log").open("r+b") as file:
        file.truncate(1000)
    with RawClient(broker) as reader:
        reader.send(fetch_request({topic: {0: 0}}), 12)
        with pytest.raises(ConnectionError):
            reader.receive_frame()
    assert client.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == 0


# -- start and stop


def test_a_stopping_broker_answers_requests_in_progress_and_ends_long_polls(tmp_path: Path, name: str) -> None:
    broker = Broker({"headwater.shutdown.timeout.ms": "20000"}, data_directory=tmp_path).start()
    with RawClient(broker) as client, RawClient(broker) as waiting, RawClient(broker) as idle:
        client.create(name)
        client.produce(name, BATCH)
        connection_of(broker, idle)
        sent = waiting.send(fetch_request({name: {0: 1}}, wait_ms=LONG_MS), 12)
        partition = broker.node.broker.partition(name, 0)
        eventually(broker, lambda: partition.watchers)
        client.send(produce_request({name: {0: BATCH}}), 9)
        eventually(broker, lambda: partition._log.end_offset == 2 or not partition.watchers)
        broker.stop()

        assert waiting.receive(FetchResponse, 12)[0] == sent
        assert client.receive(ProduceResponse, 9)[1].responses[0].partition_responses[0].base_offset == 1
        assert all(one.is_closed() for one in (client, waiting, idle))
    with Broker(data_directory=tmp_path) as again, RawClient(again) as client:
        assert client.offset(name) == 2


def test_a_client_that_reads_no_reply_does_not_prevent_a_stop(name: str) -> None:
    with Broker({"headwater.shutdown.timeout.ms": "50"}) as broker, RawClient(broker) as client:
        client.create(name)
        fill(client, name, 16)
        deaf = RawClient(broker, receive_buffer_bytes=4096)
        deaf.send(fetch_request({name: {0: 0}}, partition_bytes=64 * MIB), 12)
        connection = connection_of(broker, deaf)
        eventually(broker, lambda: connection._output._waiting)
    assert connection.is_closed
    deaf.socket.close()


def test_a_stopping_broker_accepts_no_more_clients() -> None:
    with Broker() as broker:
        with RawClient(broker) as client:
            on_loop(broker, lambda: stop_accepting(broker))
            assert client.is_closed()
        with pytest.raises(ConnectionRefusedError):
            RawClient(broker)
        on_loop(broker, acceptor_of(broker)._accept_again)


def test_an_address_in_use_stops_the_start_without_a_trace(broker: Broker, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="ddress already in use"):
        Broker({"listeners": broker.bootstrap_servers}, data_directory=tmp_path).start()
    with Broker(data_directory=tmp_path) as second:
        assert second.bootstrap_servers != broker.bootstrap_servers


def test_a_broker_listens_on_ipv6_and_returns_its_advertised_address() -> None:
    settings = {"listeners": "[::1]:0", "advertised.listeners": "broker.example.org:9092"}
    with Broker(settings) as broker:
        assert broker.bootstrap_servers.startswith("[::1]:")
        with socket.create_connection(("::1", broker.node.addresses["kafka"].port)) as plain:
            plain.sendall(frame(MetadataRequest(topics=[]), 9))
            assert b"broker.example.org" in plain.recv(65536)


def test_a_connection_closed_before_its_admission_is_forgotten(timed: Broker) -> None:
    gone = socket.socket()

    on_loop(timed, lambda: timed.node.connections.admit(gone, ("127.0.0.1", 0), acceptor_of(timed)._converse))

    assert gone.fileno() == -1
    assert on_loop(timed, lambda: timed.node.connections.connection_count) == 0
