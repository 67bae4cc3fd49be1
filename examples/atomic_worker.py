"""Receive an order, write its invoice, accept the order: all or nothing, even if the worker is killed in between.

python examples/atomic_worker.py [HOST:PORT]
"""

import os
import signal
import subprocess
import sys
from uuid import uuid4

from headwater.client import (
    Admin,
    Cluster,
    Consumer,
    Producer,
    QueueConsumer,
    TopicName,
    TopicPartition,
    TransactionalProducer,
)

ORDERS = 20


def work(bootstrap: str, topic: str, killed_at: str) -> None:
    """Works until the queue is empty, or kills itself in the middle of an order."""
    with Cluster(bootstrap) as cluster:
        queue = QueueConsumer(cluster, f"{topic}-billing", [topic])
        # After a restart the same id: the transaction that the one before left open is aborted at once.
        producer = TransactionalProducer(cluster, f"{topic}-billing-1")
        while orders := queue.receive(wait_ms=1000):
            (order,) = orders
            with producer.transaction() as transaction:
                transaction.send(f"{topic}-invoices", b"invoice of " + (order.value or b""))
                transaction.ack(queue, order.receipt)
                if order.value == killed_at.encode() and order.delivery_count == 1:
                    os.kill(os.getpid(), signal.SIGKILL)


def run(bootstrap: str) -> None:
    topic = f"orders-{uuid4().hex[:8]}"
    with Cluster(bootstrap) as cluster:
        Admin(cluster).create_topic(topic, partition_count=1)
        Admin(cluster).create_topic(f"{topic}-invoices", partition_count=1)
        with Producer(cluster) as producer:
            for number in range(ORDERS):
                producer.send(topic, b"order %d" % number)
        deaths = 0
        while subprocess.run([sys.executable, __file__, bootstrap, topic, "order 7"], check=False).returncode:
            deaths += 1
        consumer = Consumer(cluster, {TopicPartition(TopicName(f"{topic}-invoices"), 0): 0}, committed_only=True)
        invoices: list[bytes | None] = []
        while len(invoices) < ORDERS:
            invoices += [record.value for record in consumer.poll()]
        # If there was one too many, it would come now.
        invoices += [record.value for record in consumer.poll()]
    print(
        f"{deaths} worker was killed; {ORDERS} orders, {len(invoices)} invoices, {len(set(invoices))} of them different"
    )


if __name__ == "__main__":
    bootstrap = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"
    if len(sys.argv) > 2:
        work(bootstrap, *sys.argv[2:])
    else:
        run(bootstrap)
