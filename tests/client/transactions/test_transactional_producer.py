"""TransactionalProducer at a real broker, with records from a queue."""

from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, TopicPartition

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.connection import BrokerConnection
from headwater.client.errors import ClientError, ConnectionLost, Refused
from headwater.client.groups.queue_consumer import NotSettled, QueueConsumer
from headwater.client.producer import Producer
from headwater.client.transactions.admin import TransactionAdmin
from headwater.client.transactions.transactional_producer import ProducerFenced, TransactionalProducer
from headwater.protocol.messages.transactions.end_txn import EndTxnRequest
from headwater.protocol.messages.transactions.txn_settle_records import TxnSettleRecordsRequest
from headwater.protocol.wire.codec import Request
from headwater.testing import Broker


@pytest.fixture
def name() -> str:
    return f"t-{uuid4().hex}"


@pytest.fixture
def invoices(cluster: Cluster, name: str) -> str:
    Admin(cluster).create_topic(f"{name}-invoices", partition_count=1)
    return f"{name}-invoices"


@pytest.fixture
def queue(cluster: Cluster, name: str) -> QueueConsumer:
    Admin(cluster).create_topic(name, partition_count=1)
    with Producer(cluster) as producer:
        for number in range(4):
            producer.send(name, b"%d" % number)
    return QueueConsumer(cluster, f"{name}-workers", [name])


@pytest.fixture
def producer(cluster: Cluster, name: str) -> TransactionalProducer:
    return TransactionalProducer(cluster, name)


@pytest.fixture
def committed(broker: Broker) -> Iterator[Callable[[str], list[bytes | None]]]:
    """What a reader of committed records sees in partition 0 of a topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "none",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )

    def read(topic: str) -> list[bytes | None]:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[bytes | None] = []
        while (message := consumer.poll(20)) is not None and message.error() is None:
            found.append(message.value())
        return found

    yield read
    consumer.close()


Committed = Callable[[str], list[bytes | None]]


def test_a_block_commits_at_its_end(
    producer: TransactionalProducer, queue: QueueConsumer, invoices: str, committed: Committed
) -> None:
    for _ in range(2):
        with producer.transaction() as transaction:
            first, second = queue.receive(2)
            transaction.send(invoices, b"for " + (first.value or b""), key=b"k", headers=(("h", b"x"),))
            transaction.ack(queue, first.receipt)
            transaction.reject(queue, second.receipt)
            assert {each.state for each in queue.peek(2)} == {"pending"}
    assert committed(invoices) == [b"for 0", b"for 2"]
    assert queue.receive(10) == []
    (stats,) = queue.stats()
    assert (stats.backlog, stats.accepted, stats.archived) == (0, 2, 2)


def test_an_error_in_a_block_aborts_it(
    producer: TransactionalProducer, queue: QueueConsumer, invoices: str, committed: Committed
) -> None:
    with pytest.raises(ZeroDivisionError), producer.transaction() as transaction:  # noqa: PT012 (the block is the test)
        (received,) = queue.receive()
        transaction.send(invoices, b"lost")
        transaction.ack(queue, received.receipt)
        raise ZeroDivisionError
    assert committed(invoices) == []
    (again,) = queue.receive(wait_ms=10_000)
    assert (again.offset, again.delivery_count) == (0, 2)
    with producer.transaction() as transaction:
        transaction.ack(queue, again.receipt)
    assert [each.offset for each in queue.receive(10)] == [1, 2, 3]


def test_a_receipt_that_is_refused_fails_the_transaction(
    producer: TransactionalProducer, queue: QueueConsumer, invoices: str, committed: Committed
) -> None:
    first, second = queue.receive(2)
    queue.ack(first.receipt)
    transaction = producer.transaction()
    transaction.send(invoices, b"lost")
    with pytest.raises(NotSettled, match="1 of 2 receipts were refused") as refused:
        transaction.ack(queue, first.receipt, second.receipt)
    assert refused.value.refusals.keys() == {first.receipt}
    with pytest.raises(ClientError, match="can only be aborted"):
        transaction.send(invoices, b"more")
    with pytest.raises(ClientError, match="can only be aborted"):
        transaction.commit()
    transaction.abort()
    assert committed(invoices) == []
    assert [each.offset for each in queue.receive(1, wait_ms=10_000)] == [1]
    with pytest.raises(NotSettled), producer.transaction() as transaction:
        transaction.ack(queue, "no receipt")


def test_one_transaction_is_open_at_a_time_and_ends_once(producer: TransactionalProducer, invoices: str) -> None:
    transaction = producer.transaction()
    with pytest.raises(ClientError, match="commit or abort it first"):
        producer.transaction()
    transaction.commit()
    for call in (transaction.commit, transaction.abort, lambda: transaction.send(invoices, b"late")):
        with pytest.raises(ClientError, match="has ended"):
            call()
    producer.transaction().abort()
    with producer.transaction() as empty:
        empty.ack(QueueConsumer(producer.cluster, "nobody", []))
    assert producer.transaction().is_open


def test_a_later_producer_fences_an_earlier_one(
    cluster: Cluster, name: str, producer: TransactionalProducer, queue: QueueConsumer, invoices: str
) -> None:
    (received,) = queue.receive()
    transaction = producer.transaction()
    transaction.send(invoices, b"lost")
    transaction.ack(queue, received.receipt)
    later = TransactionalProducer(cluster, name)
    with pytest.raises(ProducerFenced):
        transaction.commit()
    for _ in range(2):
        with pytest.raises(ProducerFenced), producer.transaction() as another:
            another.send(invoices, b"lost, too")
    (again,) = queue.receive(wait_ms=10_000)
    with later.transaction() as transaction:
        transaction.ack(queue, again.receipt)


def test_after_a_time_out_the_next_transaction_works(
    cluster: Cluster, name: str, queue: QueueConsumer, invoices: str, committed: Committed
) -> None:
    producer = TransactionalProducer(cluster, name, timeout_ms=1)
    (received,) = queue.receive()
    with pytest.raises(ProducerFenced), producer.transaction() as transaction:  # noqa: PT012 (as above)
        transaction.ack(queue, received.receipt)
        (received,) = queue.receive(wait_ms=10_000)
        while received.offset:
            (received,) = queue.receive(wait_ms=10_000)
        transaction.send(invoices, b"lost")
    assert committed(invoices) == []
    assert received.delivery_count == 2
    producer._timeout_ms = 60_000
    with producer.transaction() as transaction:
        transaction.send(invoices, b"paid")
        transaction.ack(queue, received.receipt)
    assert committed(invoices) == [b"paid"]


@pytest.mark.parametrize("lost", [TxnSettleRecordsRequest, EndTxnRequest])
@pytest.mark.parametrize("arrives", [True, False])
def test_a_lost_answer_does_no_harm(
    producer: TransactionalProducer,
    queue: QueueConsumer,
    invoices: str,
    committed: Committed,
    monkeypatch: pytest.MonkeyPatch,
    lost: type[Request],
    arrives: bool,
) -> None:
    call = BrokerConnection.call
    losses = [lost]

    def lossy(self: BrokerConnection, request: Request, *arguments: object, **options: object) -> object:
        if losses and isinstance(request, losses[0]):
            losses.clear()
            if arrives:
                call(self, request, *arguments, **options)  # type: ignore[arg-type]
            self.close()
            raise ConnectionLost("for this test")
        return call(self, request, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(BrokerConnection, "call", lossy)
    (received,) = queue.receive()
    with producer.transaction() as transaction:
        transaction.send(invoices, b"paid")
        transaction.ack(queue, received.receipt)
    assert not losses
    assert committed(invoices) == [b"paid"]
    assert [each.offset for each in queue.receive(10)] == [1, 2, 3]


def test_refusals_of_the_whole_request_are_raised(producer: TransactionalProducer, cluster: Cluster) -> None:
    with pytest.raises(Refused, match="10000 receipts"), producer.transaction() as transaction:
        transaction.ack(QueueConsumer(cluster, "workers", []), *10_001 * ["x"])


def test_what_it_settles_is_a_part_of_the_transaction(
    producer: TransactionalProducer, queue: QueueConsumer, cluster: Cluster, name: str
) -> None:
    (received,) = queue.receive()
    transaction = producer.transaction()
    transaction.ack(queue, received.receipt)
    described = TransactionAdmin(cluster).describe_transaction(name)
    assert described.state == "Ongoing"
    assert [each.topic for each in described.partitions] == ["__share_group_state"]
    transaction.abort()
