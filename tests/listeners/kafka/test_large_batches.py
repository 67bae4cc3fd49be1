"""A batch that is checked in a thread: others are served meanwhile, and every order is kept."""

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headwater.broker.writes import large_batch
from headwater.errors import ErrorCode
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.compression import Codec
from headwater.protocol.messages.cluster.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headwater.protocol.messages.configs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from headwater.protocol.messages.records.produce import PartitionProduceResponse, ProduceResponse
from headwater.testing import Broker
from tests.support.broker.on_loop import connection_of, eventually, on_loop
from tests.support.kafka import raw_transactions
from tests.support.kafka.raw_client import NOW_MS, RawClient, batch_of, produce_request

SMALL = batch_of(b"small")
LARGE_BYTES = 300_000


def large(value: bytes = b"large", codec: Codec = Codec.LZ4, **options: Any) -> bytes:
    return batch_of(value, bytes(LARGE_BYTES), codec=codec, **options)


LARGE = large()


class Gate:
    """Keeps batches in the thread until it is opened."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self._open = threading.Event()

    def check(self, *arguments: Any) -> memoryview:
        self.entered.release()
        assert self._open.wait(60)
        return _check(*arguments)

    def wait_for(self, count: int = 1) -> None:
        for _ in range(count):
            assert self.entered.acquire(timeout=60)

    def open(self) -> None:
        self._open.set()


_check = large_batch.check


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate()
    monkeypatch.setattr(large_batch, "check", gate.check)
    yield gate
    gate.open()


@pytest.fixture
def other(broker: Broker) -> Iterator[RawClient]:
    with RawClient(broker) as other:
        yield other


def produced(client: RawClient) -> PartitionProduceResponse:
    return client.receive(ProduceResponse, 9)[1].responses[0].partition_responses[0]


def values(client: RawClient, topic: str) -> list[bytes | None]:
    return [record.value for record in client.records(topic) if len(record.value or b"") < LARGE_BYTES]


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
@pytest.mark.parametrize("acks", [0, 1, -1])
def test_a_large_batch_is_written_and_acknowledged(client: RawClient, topic: str, codec: Codec, acks: int) -> None:
    client.send(produce_request({topic: {0: large(codec=codec)}}, acks=acks), 9)
    if acks:
        assert produced(client).base_offset == 0
    assert client.produce(topic, SMALL).base_offset == 2

    assert values(client, topic) == [b"large", b"small"]


def test_others_are_served_while_the_requests_of_its_client_wait(
    client: RawClient, other: RawClient, topic: str, gate: Gate
) -> None:
    client.send(produce_request({topic: {0: LARGE}}), 9)
    client.send(produce_request({topic: {0: SMALL}}, acks=1), 9)
    client.send(ApiVersionsRequest(), 0)
    gate.wait_for()

    assert other.produce(topic, batch_of(b"other")).base_offset == 0
    assert values(other, topic) == [b"other"]

    gate.open()
    assert produced(client).base_offset == 1
    assert produced(client).base_offset == 3
    assert client.receive(ApiVersionsResponse, 0)[1].error_code == 0
    assert values(other, topic) == [b"other", b"large", b"small"]


def test_batches_of_one_request_keep_their_place_in_the_reply(client: RawClient, name: str) -> None:
    client.create(name, 3)
    request: dict[str, dict[int, bytes | None]] = {name: {0: SMALL, 1: LARGE, 2: large(b"2", Codec.ZSTD)}}
    for number in range(3):
        client.send(produce_request(request), 9)
        (topic,) = client.receive(ProduceResponse, 9)[1].responses
        assert [(each.index, each.base_offset) for each in topic.partition_responses] == [
            (0, number),
            (1, 2 * number),
            (2, 2 * number),
        ]


def test_sequences_of_an_idempotent_producer_are_kept_in_order(client: RawClient, topic: str) -> None:
    producer_id = raw_transactions.ask_init(client, None).producer_id
    sequence, expected = 0, 0
    for number in range(40):
        is_large = number % 3 != 1
        make: Callable[..., bytes] = large if is_large else batch_of
        batch = make(b"%d" % number, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
        client.send(produce_request({topic: {0: batch}}, acks=-1 if number % 2 else 1), 9)
        sequence += 2 if is_large else 1
    for number in range(40):
        answer = produced(client)
        assert (answer.error_code, answer.base_offset) == (0, expected)
        expected += 2 if number % 3 != 1 else 1

    again = large(b"38", producer_id=producer_id, producer_epoch=0, base_sequence=sequence - 4)
    assert client.produce(topic, again).base_offset == expected - 4, "a duplicate is recognised"
    gap = large(b"gap", producer_id=producer_id, producer_epoch=0, base_sequence=sequence + 1)
    assert client.produce(topic, gap).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert values(client, topic) == [b"%d" % number for number in range(40)]


@pytest.mark.parametrize("version", [raw_transactions.PRODUCE_1, raw_transactions.PRODUCE_2])
def test_a_batch_whose_transaction_ends_while_it_is_checked_is_refused(
    client: RawClient, other: RawClient, topic: str, transactional_id: str, gate: Gate, version: int
) -> None:
    """Otherwise it would open a transaction that no marker ever ends, and hold back every reader."""
    producer = raw_transactions.init(other, transactional_id)
    is_first = version == raw_transactions.PRODUCE_1
    if is_first:
        asked = raw_transactions.add_request(producer, {topic: [0]})
        added = other.ask(asked, raw_transactions.AddPartitionsToTxnResponse, 3)
        assert added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0
    options: dict[str, Any] = {"producer_id": producer.id, "producer_epoch": producer.epoch, "transactional": True}
    late = produce_request({topic: {0: large(base_sequence=0, **options)}}, transactional_id=transactional_id)
    client.send(late, version)
    gate.wait_for()
    successor = raw_transactions.init(other, transactional_id)
    assert successor.epoch > producer.epoch
    gate.open()

    answer = client.receive(ProduceResponse, version)[1].responses[0].partition_responses[0]

    assert answer.error_code in {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE}
    assert other.produce(topic, SMALL).error_code == 0
    committed = other.look_up(topic, -1, isolation_level=raw_transactions.READ_COMMITTED)
    assert committed.offset == other.offset(topic)


def test_large_batches_of_a_transaction_are_committed_together(
    client: RawClient, topic: str, transactional_id: str
) -> None:
    producer = raw_transactions.init(client, transactional_id)
    for number in range(3):
        batch = large(
            b"%d" % number,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            transactional=True,
            base_sequence=2 * number,
        )
        client.send(produce_request({topic: {0: batch}}, transactional_id=transactional_id), raw_transactions.PRODUCE_2)
    for number in range(3):
        answer = client.receive(ProduceResponse, raw_transactions.PRODUCE_2)[1].responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (0, 2 * number)
    ended = raw_transactions.EndTxnRequest(
        transactional_id=transactional_id, producer_id=producer.id, producer_epoch=producer.epoch, committed=True
    )
    assert client.ask(ended, raw_transactions.EndTxnResponse, raw_transactions.END_2).error_code == 0

    eventually_committed(client, topic, 7)
    assert values(client, topic)[:3] == [b"0", b"1", b"2"]


def eventually_committed(client: RawClient, topic: str, end: int) -> None:
    for _ in range(10_000):
        if client.look_up(topic, -1, isolation_level=raw_transactions.READ_COMMITTED).offset == end:
            return
    raise AssertionError("it never came to be")


def test_memory_of_a_batch_counts_as_taken_until_it_is_checked(
    broker: Broker, client: RawClient, topic: str, gate: Gate
) -> None:
    memory = broker.node.connections.memory
    incompressible = batch_of(bytes(range(256)) * 3000, codec=Codec.SNAPPY)
    request = produce_request({topic: {0: bytes(batches.with_payload(incompressible, bytes(600_000), 2))}})
    with RawClient(broker) as leaving:
        leaving.send(request, 9)
        gate.wait_for()
        connection = connection_of(broker, leaving)
        taken = on_loop(broker, lambda: memory.used)
        assert taken > 500_000
        on_loop(broker, connection.relax)
        assert on_loop(broker, lambda: memory.used) == taken
    on_loop(broker, connection.close)
    assert on_loop(broker, lambda: memory.used) == taken, "the thread still reads it"
    gate.open()
    eventually(broker, lambda: memory.used <= taken - 500_000)
    assert client.produce(topic, SMALL).error_code == 0


def test_a_batch_is_written_although_its_client_has_left(
    broker: Broker, client: RawClient, topic: str, gate: Gate
) -> None:
    with RawClient(broker) as leaving:
        leaving.send(produce_request({topic: {0: LARGE}}), 9)
        gate.wait_for()
        connection = connection_of(broker, leaving)
    on_loop(broker, connection.close)
    gate.open()

    eventually(broker, lambda: broker.node.broker.partition(topic, 0).high_watermark == 2)
    assert values(client, topic) == [b"large"]


def test_a_batch_is_checked_again_when_settings_have_changed_meanwhile(
    client: RawClient, other: RawClient, topic: str, gate: Gate
) -> None:
    client.send(produce_request({topic: {0: large(key=None)}}), 9)
    gate.wait_for()
    compact = AlterConfigsResource(
        resource_type=2,
        resource_name=topic,
        configs=[AlterableConfig(name="cleanup.policy", config_operation=0, value="compact")],
    )
    asked = IncrementalAlterConfigsRequest(resources=[compact], validate_only=False)
    assert other.ask(asked, IncrementalAlterConfigsResponse, 1).responses[0].error_code == 0
    gate.open()

    answer = produced(client)
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [each.batch_index for each in answer.record_errors] == [0, 1]


def test_a_topic_that_is_deleted_meanwhile_takes_no_batch(
    broker: Broker, client: RawClient, topic: str, gate: Gate
) -> None:
    client.send(produce_request({topic: {0: LARGE}}), 9)
    gate.wait_for()
    broker.call(broker.node.broker.topics.delete(topic))  # pyright: ignore[reportArgumentType]
    gate.open()

    assert produced(client).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_bad_batch_is_refused_and_its_client_goes_on(client: RawClient, topic: str) -> None:
    bad = bytearray(LARGE)
    bad[70] ^= 255
    bad[17:21] = batches.crc32c(bytes(bad[21:])).to_bytes(4, "big")

    assert client.produce(topic, bytes(bad)).error_code == ErrorCode.INVALID_RECORD
    assert client.produce(topic, LARGE).base_offset == 0


def test_a_bad_batch_with_acks_0_ends_its_connection(client: RawClient, topic: str) -> None:
    client.create(topic + "-compacted", cleanup_policy="compact")
    client.send(produce_request({topic + "-compacted": {0: large(key=None)}}, acks=0), 9)
    assert client.is_closed()


def test_a_bug_in_the_check_ends_the_connection_alone(
    broker: Broker,
    client: RawClient,
    other: RawClient,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    before = broker.node.broker.measurements.replies_failed.value
    with monkeypatch.context() as patch:
        patch.setattr(large_batch, "check", fail)
        client.send(produce_request({topic: {0: LARGE}}), 9)
        assert client.is_closed()

    assert broker.node.broker.measurements.replies_failed.value == before + 1
    assert caplog.text.count("ZeroDivisionError: a bug") == 1
    assert other.produce(topic, LARGE).base_offset == 0


def test_append_time_is_that_of_the_append(client: RawClient, other: RawClient, name: str, gate: Gate) -> None:
    client.create(name, message_timestamp_type="LogAppendTime")
    client.send(produce_request({name: {0: large(timestamp=NOW_MS)}}), 9)
    gate.wait_for()
    first = other.produce(name, SMALL)
    gate.open()

    assert produced(client).log_append_time_ms >= first.log_append_time_ms
    times = [record.timestamp for record in other.records(name)]
    assert times == sorted(times)
    assert times[0] > NOW_MS


@pytest.mark.parametrize("waiting", [1, 4])
def test_a_stop_waits_for_batches_that_are_being_checked(tmp_path: Path, gate: Gate, waiting: int) -> None:
    settings = {"headwater.batch.check.threads": "1", "headwater.shutdown.timeout.ms": "20000"}
    with stopping(tmp_path, settings) as broker:
        clients = [RawClient(broker) for _ in range(waiting)]
        clients[0].create("topic")
        for client in clients:
            client.send(produce_request({"topic": {0: LARGE}}), 9)
            connection = connection_of(broker, client)
            eventually(broker, lambda connection=connection: connection._hold_count)
        gate.wait_for()
        ending = threading.Thread(target=broker.stop)
        ending.start()
        gate.open()
        for client in clients:
            assert produced(client).error_code == 0
            client.socket.close()
        ending.join()
    with Broker(data_directory=tmp_path) as again, RawClient(again) as client:
        assert values(client, "topic") == [b"large"] * waiting


@contextmanager
def stopping(directory: Path, settings: dict[str, str]) -> Generator[Broker]:
    broker = Broker(settings, data_directory=directory).start()
    yield broker


def test_a_stop_does_not_wait_for_more_than_its_time_limit(tmp_path: Path, gate: Gate) -> None:
    settings = {"headwater.batch.check.threads": "1", "headwater.shutdown.timeout.ms": "0"}
    with stopping(tmp_path, settings) as broker:
        clients = [RawClient(broker) for _ in range(3)]
        clients[0].create("topic")
        for client in clients:
            client.send(produce_request({"topic": {0: LARGE}}), 9)
            connection = connection_of(broker, client)
            eventually(broker, lambda connection=connection: connection._hold_count)
        gate.wait_for()
        ending = threading.Thread(target=broker.stop)
        ending.start()
        assert all(client.is_closed() for client in clients)
        eventually(broker, lambda: len(broker.node.broker._check_threads._under_way) == 1)
        gate.open()
        ending.join()
        for client in clients:
            client.socket.close()
    with Broker(data_directory=tmp_path) as again, RawClient(again) as client:
        assert values(client, "topic") == [b"large"], "the one that was being checked; the others were not begun"
