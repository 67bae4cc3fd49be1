"""Workers that receive orders from a queue and write an invoice for each in a transaction, over all deaths of their
broker, and what must hold of orders and invoices in the end (I8 and I14 together)."""

import threading
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager, suppress
from random import Random

from confluent_kafka import Consumer, TopicPartition

from headwater.client.cluster import Cluster
from headwater.client.errors import ClientError, UnknownGroup
from headwater.client.groups.queue_consumer import QueueConsumer, ReceivedRecord
from headwater.client.transactions.transactional_producer import TransactionalProducer
from headwater.errors import ErrorCode
from tests.support.broker.processes import BrokerProcess
from tests.support.kafka.raw_client import RawClient, batch_of
from tests.support.kafka.raw_shares import configure

ORDERS, INVOICES, GROUP = "orders", "invoices", "billing"
WORKERS = 3
LOCK_MS = 2000
# Far more than a record needs if only every sixth transaction is aborted.
DELIVERIES_MAX = 10
ABORTED_SHARE = 1 / 6
DEADLINE_S = 90
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.snapshot.update.records.per.snapshot": "20",
    "share.coordinator.state.topic.prune.interval.ms": "500",
    "group.share.min.record.lock.duration.ms": "1000",
    "headwater.log.level": "error",
}


def prepare(broker: BrokerProcess, count: int) -> None:
    with RawClient(broker) as client:
        client.create(ORDERS)
        client.create(INVOICES)
        limits = {"share_record_lock_duration_ms": str(LOCK_MS), "share_delivery_count_limit": str(DELIVERIES_MAX)}
        configure(client, GROUP, share_auto_offset_reset="earliest", **limits)
        values = [b"%d" % number for number in range(count)]
        assert client.produce(ORDERS, batch_of(*values)).error_code == ErrorCode.NONE


class History:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Orders whose transaction was committed, as the broker confirmed.
        self.confirmed: set[int] = set()
        self.violations: list[str] = []

    def received(self, records: list[ReceivedRecord]) -> None:
        with self._lock:
            for each in records:
                if each.offset in self.confirmed:
                    self.violations.append(f"order {each.offset} came again after its invoice was committed")
                if each.delivery_count > DELIVERIES_MAX:
                    self.violations.append(f"order {each.offset} came for the {each.delivery_count}th time")

    def committed(self, records: list[ReceivedRecord]) -> None:
        with self._lock:
            self.confirmed.update(each.offset for each in records)


class Worker(threading.Thread):
    def __init__(self, broker: BrokerProcess, history: History, number: int, stop: threading.Event) -> None:
        super().__init__(name=f"worker-{number}")
        self._broker = broker
        self._history = history
        self._id = f"billing-{number}"
        self._random = Random(number)
        self._stop_event = stop

    def run(self) -> None:
        while not self._stop_event.is_set():
            with suppress(ClientError), Cluster(self._broker.bootstrap_servers) as cluster:
                self._work(cluster)
            self._stop_event.wait(0.05)

    def _work(self, cluster: Cluster) -> None:
        queue = QueueConsumer(cluster, GROUP, [ORDERS])
        producer = TransactionalProducer(cluster, self._id)
        while not self._stop_event.is_set():
            records = queue.receive(self._random.randint(1, 4), wait_ms=100)
            self._history.received(records)
            if not records:
                continue
            with producer.transaction() as transaction:
                for each in records:
                    transaction.send(INVOICES, b"%d" % each.offset, partition=0)
                    settle = transaction.reject if each.offset % 10 == 3 else transaction.ack
                    settle(queue, each.receipt)
                if self._random.random() < ABORTED_SHARE:
                    transaction.abort()
                    continue
            self._history.committed(records)


@contextmanager
def workers(broker: BrokerProcess, history: History) -> Generator[None]:
    stop = threading.Event()
    running = [Worker(broker, history, number, stop) for number in range(WORKERS)]
    for worker in running:
        worker.start()
    try:
        yield
    finally:
        stop.set()
        for worker in running:
            worker.join()


def wait_until_done(broker: BrokerProcess) -> None:
    deadline = time.monotonic() + DEADLINE_S
    with Cluster(broker.bootstrap_servers) as cluster:
        queue = QueueConsumer(cluster, GROUP, [ORDERS])
        while _backlog(queue):
            assert time.monotonic() < deadline, f"some orders are never done with: {queue.stats()} {queue.peek(10)}"
            time.sleep(0.05)


def _backlog(queue: QueueConsumer) -> int:
    """1 before the first worker has come."""
    try:
        stats = queue.stats()
    except UnknownGroup:
        return 1
    return sum(each.backlog for each in stats) if stats else 1


def check(broker: BrokerProcess, history: History, count: int) -> None:
    """Every order is done with, and has one invoice that readers of committed records see."""
    assert history.violations == []
    seen = Counter(_committed_invoices(broker))
    assert {order: times for order, times in seen.items() if times > 1} == {}, "orders with several invoices"
    assert sorted(set(range(count)) - seen.keys()) == [], "orders that are done with and have no invoice"
    assert history.confirmed <= seen.keys()


def _committed_invoices(broker: BrokerProcess) -> list[int]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "auditors",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(INVOICES, 0), timeout=DEADLINE_S)
        consumer.assign([TopicPartition(INVOICES, 0, 0)])
        found: list[int] = []
        while (message := consumer.poll(DEADLINE_S)) is not None:
            if message.error() is None:
                found.append(int(message.value() or b""))
            elif (message.offset() or 0) >= end:
                # The last stable offset is the end: no transaction is open.
                return found
        raise AssertionError(f"the invoices before offset {end} cannot be read")
    finally:
        consumer.close()
