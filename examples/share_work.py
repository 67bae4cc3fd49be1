"""Two consumers of one group share six partitions. When one of them leaves, the other takes over its partitions.

python examples/share_work.py [HOST:PORT]
"""

import sys
from uuid import uuid4

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # pyright: ignore[reportPrivateImportUsage]

bootstrap = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"
topic = f"jobs-{uuid4().hex[:8]}"

admin = AdminClient({"bootstrap.servers": bootstrap})
admin.create_topics([NewTopic(topic, num_partitions=6)])[topic].result()
producer = Producer({"bootstrap.servers": bootstrap})
for number in range(60):
    producer.produce(topic, value=str(number).encode(), partition=number % 6)
producer.flush()


def member() -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"workers-of-{topic}",
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            # Commit only the messages that `work` marks as done, not all that were fetched.
            "enable.auto.offset.store": False,
        }
    )
    consumer.subscribe([topic])
    return consumer


done: set[bytes] = set()


def work(consumer: Consumer) -> None:
    """Do some jobs and mark each as done.

    The client commits the marked offsets every few seconds, and before a partition moves to another member, which
    continues after them. (A manual commit may arrive while the group moves to another epoch. The broker would refuse
    it, and the program would have to retry.)
    """
    for message in consumer.consume(10, timeout=0.1):
        if message.error() is None:
            done.add(message.value() or b"")
            consumer.store_offsets(message=message)


ann, ben = member(), member()
while len(ann.assignment()) != 3 or len(ben.assignment()) != 3:
    work(ann)
    work(ben)
print("ann has 3 partitions, ben has 3")

ann.close()
while len(ben.assignment()) != 6 or len(done) < 60:
    work(ben)
print("ben has 6 partitions, and every job is done")
ben.close()
