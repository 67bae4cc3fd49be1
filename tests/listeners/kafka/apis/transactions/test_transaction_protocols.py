"""Requests that are late, early, concurrent or from zombies: none decides or enters a transaction that is not its own,
and none overtakes another."""

import threading
from collections.abc import Iterator
from uuid import uuid4

import pytest

from headwater.errors import ErrorCode
from headwater.protocol.messages.records.produce import ProduceResponse
from headwater.protocol.messages.transactions.end_txn import EndTxnResponse
from headwater.testing import Broker
from tests.support.broker.faulty_disk import FaultyDisk
from tests.support.broker.on_loop import eventually, on_loop
from tests.support.kafka.raw_client import TIMEOUT_S, RawClient, batch_of
from tests.support.kafka.raw_groups import committed, find
from tests.support.kafka.raw_transactions import (
    COMMIT_OFFSETS_1,
    COMMIT_OFFSETS_2,
    END_1,
    END_2,
    PRODUCE_1,
    PRODUCE_2,
    SETTINGS,
    Producer,
    add,
    add_offsets,
    await_state,
    commit_offset,
    committed_values,
    end,
    end_request,
    ended,
    init,
    markers,
    stable_offset,
    state,
    values,
    write,
    write_request,
    written,
)

PROTOCOLS = pytest.mark.parametrize("protocol", [1, 2])
STATE_TOPIC = "__transaction_state"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(SETTINGS) as broker:
        yield broker


@pytest.fixture
def producer(client: RawClient) -> Producer:
    return init(client, f"transaction-{uuid4().hex}")


def begin(client: RawClient, producer: Producer, topic: str, *values: bytes, protocol: int, sequence: int = 0) -> None:
    """Writes the first records of a transaction."""
    if protocol == 1:
        assert add(client, producer, topic) == 0
    written(client, producer, topic, *values, sequence=sequence, version=PRODUCE_1 if protocol == 1 else PRODUCE_2)


# -- a delayed end


@pytest.mark.parametrize("is_commit", [True, False])
def test_in_protocol_2_a_late_end_cannot_decide_a_later_transaction(
    broker: Broker, client: RawClient, topic: str, producer: Producer, is_commit: bool
) -> None:
    begin(client, producer, topic, b"first", protocol=2)
    # The client times out, repeats the request over another connection, and continues.
    held_back = end_request(producer, commit=is_commit)
    following = ended(client, producer, commit=is_commit)
    begin(client, following, topic, b"second", protocol=2)

    with RawClient(broker) as late:
        told = late.ask(held_back, EndTxnResponse, END_2)
    assert told.error_code == ErrorCode.PRODUCER_FENCED
    assert state(client, producer.transactional_id) == "Ongoing"
    assert committed_values(client, topic) == ([b"first"] if is_commit else [])
    ended(client, following, commit=not is_commit)
    assert committed_values(client, topic) == [b"first" if is_commit else b"second"]


def test_in_protocol_2_a_late_end_is_harmless_before_the_next_transaction_begins(
    client: RawClient, topic: str, producer: Producer
) -> None:
    begin(client, producer, topic, b"first", protocol=2)
    following = ended(client, producer)
    told = end(client, producer)
    assert (told.error_code, told.producer_epoch) == (0, following.epoch)
    begin(client, following, topic, b"second", protocol=2)
    assert committed_values(client, topic) == [b"first"]


def test_in_protocol_1_a_late_end_decides_the_open_transaction(
    broker: Broker, client: RawClient, topic: str, producer: Producer
) -> None:
    """The limit of that protocol (KIP-890): nothing in the request says which transaction it is for."""
    begin(client, producer, topic, b"first", protocol=1)
    held_back = end_request(producer, commit=True)
    ended(client, producer, version=END_1)
    begin(client, producer, topic, b"second", protocol=1, sequence=1)

    with RawClient(broker) as late:
        assert late.ask(held_back, EndTxnResponse, END_1).error_code == 0
    await_state(client, producer.transactional_id, "CompleteCommit")
    assert committed_values(client, topic) == [b"first", b"second"]


# -- delayed records


@pytest.mark.parametrize("version", [9, PRODUCE_1])
def test_in_protocol_1_records_after_the_abort_are_refused(
    broker: Broker, client: RawClient, topic: str, producer: Producer, version: int
) -> None:
    begin(client, producer, topic, b"first", protocol=1)
    ended(client, producer, commit=False, version=END_1)
    with RawClient(broker) as late:
        told = write(late, producer, topic, b"late", sequence=1, version=version)
    assert told.error_code == (ErrorCode.INVALID_TXN_STATE if version < 11 else ErrorCode.TRANSACTION_ABORTABLE)
    assert values(client, topic) == [b"first"]
    assert stable_offset(client, topic) == 2, "nothing hangs"


def test_in_protocol_2_records_after_the_end_are_refused(
    broker: Broker, client: RawClient, topic: str, name: str, producer: Producer
) -> None:
    other = f"{name}-other"
    client.create(other)
    begin(client, producer, topic, b"first", protocol=2)
    following = ended(client, producer, commit=False)
    with RawClient(broker) as late:
        for where in (topic, other):
            assert write(late, producer, where, b"late", sequence=1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        begin(client, following, topic, b"second", protocol=2)
        # They are refused inside the next transaction as well.
        for where in (topic, other):
            assert write(late, producer, where, b"late", sequence=1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    ended(client, following)
    assert committed_values(client, topic) == [b"second"]
    assert (values(client, topic), values(client, other)) == ([b"first", b"second"], [])


def test_retried_records_are_acknowledged_again_and_written_once(
    client: RawClient, topic: str, producer: Producer
) -> None:
    first = write(client, producer, topic, b"a")
    again = write(client, producer, topic, b"a")
    assert (first.error_code, first.base_offset) == (again.error_code, again.base_offset) == (0, 0)
    ended(client, producer)
    assert committed_values(client, topic) == [b"a"]


def test_in_protocol_2_the_sequences_of_an_epoch_begin_at_zero(
    client: RawClient, topic: str, producer: Producer
) -> None:
    """Otherwise later records would open the transaction although the records before them were refused."""
    told = write(client, producer, topic, b"second", sequence=1)
    assert told.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    written(client, producer, topic, b"first")
    written(client, producer, topic, b"second", sequence=1)
    ended(client, producer)
    assert committed_values(client, topic) == [b"first", b"second"]


# -- partitions that were not added


def test_without_verification_protocol_1_accepts_records_of_partitions_that_were_not_added() -> None:
    with (
        Broker({**SETTINGS, "transaction.partition.verification.enable": "false"}) as broker,
        RawClient(broker) as client,
    ):
        client.create("topic")
        producer = init(client, "tx")
        written(client, producer, "topic", b"unannounced", version=PRODUCE_1)
        assert state(client, "tx") == "Empty"
        assert stable_offset(client, "topic") == 0, "what verification is there to prevent"


def test_without_verification_protocol_2_still_adds_partitions() -> None:
    """No other request adds them: the client relies on the broker."""
    with (
        Broker({**SETTINGS, "transaction.partition.verification.enable": "false"}) as broker,
        RawClient(broker) as client,
    ):
        client.create("topic")
        producer = init(client, "tx")
        written(client, producer, "topic", b"a")
        assert state(client, "tx") == "Ongoing"
        ended(client, producer)
        assert committed_values(client, "topic") == [b"a"]


# -- zombies


@PROTOCOLS
def test_every_request_of_a_zombie_is_refused(client: RawClient, topic: str, producer: Producer, protocol: int) -> None:
    group = f"group-{uuid4().hex}"
    find(client, group)
    begin(client, producer, topic, b"zombie", protocol=protocol)
    successor = init(client, producer.transactional_id)
    begin(client, successor, topic, b"successor", protocol=protocol)

    produce, ending = (PRODUCE_1, END_1) if protocol == 1 else (PRODUCE_2, END_2)
    offsets = COMMIT_OFFSETS_1 if protocol == 1 else COMMIT_OFFSETS_2
    for is_commit in (True, False):
        assert end(client, producer, commit=is_commit, version=ending).error_code == ErrorCode.PRODUCER_FENCED
    assert add(client, producer, topic) == ErrorCode.PRODUCER_FENCED
    assert add_offsets(client, producer, group) == ErrorCode.PRODUCER_FENCED
    told = write(client, producer, topic, b"zombie", sequence=1, version=produce)
    assert told.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    code = commit_offset(client, producer, group, topic, 7, version=offsets)
    assert code == ErrorCode.INVALID_PRODUCER_EPOCH

    ended(client, successor, version=ending)
    assert committed_values(client, topic) == [b"successor"]
    assert committed(client, group, topic).committed_offset == -1


@PROTOCOLS
def test_transactions_of_two_producers_in_one_partition_end_separately(
    client: RawClient, topic: str, producer: Producer, protocol: int
) -> None:
    version = END_1 if protocol == 1 else END_2
    other = init(client, f"{producer.transactional_id}-other")
    begin(client, producer, topic, b"aborted", protocol=protocol)
    begin(client, other, topic, b"committed", protocol=protocol)
    client.produce(topic, batch_of(b"plain"))
    ended(client, other, version=version)
    assert (stable_offset(client, topic), committed_values(client, topic)) == (0, [])
    ended(client, producer, commit=False, version=version)
    assert committed_values(client, topic) == [b"committed", b"plain"]


def test_clients_of_both_protocols_may_use_an_id_in_turn(client: RawClient, topic: str, producer: Producer) -> None:
    begin(client, producer, topic, b"one", protocol=1)
    ended(client, producer, version=END_1)
    begin(client, producer, topic, b"two", protocol=2, sequence=1)
    following = ended(client, producer)
    begin(client, following, topic, b"three", protocol=1)
    ended(client, following, version=END_1)
    assert committed_values(client, topic) == [b"one", b"two", b"three"]
    assert [epoch for _, epoch, _ in markers(client, topic)] == [0, 1, 1]


def test_the_last_epoch_of_a_producer_id_is_followed_by_another_id(
    broker: Broker, client: RawClient, topic: str, producer: Producer
) -> None:
    begin(client, producer, topic, b"0", protocol=2)
    producer = ended(client, producer)
    transactions = broker.node.broker.transactions

    def age() -> None:
        (machine,) = (each for each in transactions.machines() if producer.transactional_id in each.transactions)
        (stored,) = (each for key, each in machine.transactions.items() if key == producer.transactional_id)
        machine.apply(stored._replace(producer_epoch=32_766, last_producer_epoch=-1))

    on_loop(broker, age)
    last = producer._replace(epoch=32_766)
    begin(client, last, topic, b"1", protocol=2)
    following = ended(client, last)
    assert (following.id != last.id, following.epoch) == (True, 0)
    again = end(client, last)
    assert (again.error_code, again.producer_id, again.producer_epoch) == (0, following.id, 0)
    begin(client, following, topic, b"2", protocol=2)
    ended(client, following, commit=False)
    assert markers(client, topic) == [(last.id, 1, True), (last.id, 32_767, True), (following.id, 1, False)]
    assert committed_values(client, topic) == [b"0", b"1"]


# -- concurrency


class Gate(threading.Event):
    """An event that lets one flush through per release, and all of them once it is set."""

    def __init__(self) -> None:
        super().__init__()
        self.tickets = threading.Semaphore(0)

    def wait(self, timeout: float | None = None) -> bool:
        return self.is_set() or self.tickets.acquire(timeout=timeout)

    def let_one_through(self) -> None:
        self.tickets.release()

    def set(self) -> None:
        super().set()
        self.tickets.release(100)


@pytest.fixture
def gated() -> Iterator[tuple[Broker, FaultyDisk, Gate]]:
    """A broker with one coordinator shard; the test decides when its decisions reach the disk."""
    disk, gate = FaultyDisk(), Gate()
    gate.set()
    disk.cursed, disk.sync_allowed = STATE_TOPIC, gate
    settings = {**SETTINGS, "transaction.state.log.num.partitions": "1"}
    with Broker(settings, disk=disk) as broker:
        yield broker, disk, gate
        gate.set()


def close(disk: FaultyDisk, gate: Gate) -> None:
    gate.clear()
    while gate.tickets.acquire(blocking=False):
        pass
    disk.sync_started.clear()


def send_all(client: RawClient, producer: Producer, sequences: range, version: int) -> None:
    for sequence in sequences:
        # With acks=all they would wait for a flush of the disk, which the test blocks.
        request = write_request(producer, "topic", b"%d" % sequence, sequence=sequence, acks=1)
        client.send(request, version)


def receive_offsets(client: RawClient, count: int, version: int) -> list[int]:
    found: list[int] = []
    for _ in range(count):
        _, told = client.receive(ProduceResponse, version)
        (partition,) = told.responses[0].partition_responses
        assert partition.error_code == 0, partition.error_message
        found.append(partition.base_offset)
    return found


def numbers(client: RawClient) -> list[int]:
    return [int(each) for each in committed_values(client, "topic") if each is not None and each.isdigit()]


def await_joining(broker: Broker, count: int) -> None:
    """Waits until this many batches wait for the coordinator."""
    transactions = broker.node.broker.transactions
    eventually(broker, lambda: transactions._joining.total() == count)


@PROTOCOLS
def test_records_in_flight_while_their_transaction_begins_keep_their_order(
    gated: tuple[Broker, FaultyDisk, Gate], protocol: int
) -> None:
    broker, disk, gate = gated
    version = PRODUCE_1 if protocol == 1 else PRODUCE_2
    with RawClient(broker) as client, RawClient(broker) as plain, RawClient(broker) as adding:
        client.create("topic")
        producer, other = init(client, "tx"), init(client, "other")
        if protocol == 1:
            assert add(client, producer, "topic") == 0
        close(disk, gate)
        # In protocol 1 a verification waits for the decisions before it.
        adding.send(write_request(other, "topic", b"other"), PRODUCE_2)
        assert disk.sync_started.wait(TIMEOUT_S)
        send_all(client, producer, range(5), version)
        assert plain.produce("topic", batch_of(b"plain"), acks=1).base_offset == 0, "it waits for nobody"
        gate.set()
        offsets = receive_offsets(client, 5, version)
        assert receive_offsets(adding, 1, PRODUCE_2)[0] not in offsets
        assert offsets == sorted(offsets)
        ended(client, producer)
        ended(client, other)
        assert numbers(client) == list(range(5))


def test_records_never_overtake_records_that_wait_for_the_coordinator(
    gated: tuple[Broker, FaultyDisk, Gate],
) -> None:
    broker, disk, gate = gated
    with RawClient(broker) as client, RawClient(broker) as other_client:
        client.create("topic")
        producer, other = init(client, "tx"), init(client, "other")
        close(disk, gate)
        send_all(client, producer, range(1), PRODUCE_2)
        assert disk.sync_started.wait(TIMEOUT_S)
        # A later decision waits for the next flush, and so do the answers to requests that follow it.
        other_client.send(write_request(other, "topic", b"other"), PRODUCE_2)
        await_joining(broker, 2)
        send_all(client, producer, range(1, 2), PRODUCE_2)
        await_joining(broker, 3)
        gate.let_one_through()
        assert receive_offsets(client, 1, PRODUCE_2) == [0]
        # The transaction is open in the partition, and yet these batches have to wait.
        send_all(client, producer, range(2, 4), PRODUCE_2)
        await_joining(broker, 4)
        gate.set()
        offsets = receive_offsets(client, 3, PRODUCE_2)
        assert offsets == sorted(offsets)
        receive_offsets(other_client, 1, PRODUCE_2)
        ended(client, producer)
        ended(client, other)
        assert numbers(client) == list(range(4))
