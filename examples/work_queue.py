"""A topic as a queue: two members of a share group work on one partition. A job that fails comes back.

python examples/work_queue.py [HOST:PORT]
"""

import sys
from uuid import uuid4

from confluent_kafka import AcknowledgeType, Producer, ShareConsumer  # pyright: ignore[reportPrivateImportUsage]
from confluent_kafka.admin import AdminClient, ConfigEntry, ConfigResource, NewTopic  # pyright: ignore[reportPrivateImportUsage]  # pyright: ignore[reportPrivateImportUsage]
from confluent_kafka.admin import AlterConfigOpType as Op  # pyright: ignore[reportPrivateImportUsage]

bootstrap = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"
topic = f"jobs-{uuid4().hex[:8]}"
group = f"workers-of-{topic}"

admin = AdminClient({"bootstrap.servers": bootstrap})
admin.create_topics([NewTopic(topic, num_partitions=1)])[topic].result()
# A new group begins at the end of a topic, unless it is told otherwise before its first member comes.
earliest = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=Op.SET)
settings = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=[earliest])
for outcome in admin.incremental_alter_configs([settings]).values():
    outcome.result()
producer = Producer({"bootstrap.servers": bootstrap})
for number in range(60):
    producer.produce(topic, value=str(number).encode())
producer.flush()


def member() -> ShareConsumer:
    consumer = ShareConsumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "share.acknowledgement.mode": "explicit"}
    )
    consumer.subscribe([topic])
    return consumer


tried: set[bytes] = set()
done: set[bytes] = set()
hopeless: set[bytes] = set()


def work(consumer: ShareConsumer) -> None:
    """Every tenth job fails the first time, and job 13 always will. What a member says counts once it is committed."""
    for message in consumer.poll(0.1):
        job = message.value() or b""
        if job == b"13":
            hopeless.add(job)
            consumer.acknowledge(message, AcknowledgeType.REJECT)
        elif job.endswith(b"0") and job not in tried:
            tried.add(job)
            consumer.acknowledge(message, AcknowledgeType.RELEASE)
        else:
            done.add(job)
            consumer.acknowledge(message)
    consumer.commit_sync()


ann, ben = member(), member()
while len(done) + len(hopeless) < 60:
    work(ann)
    work(ben)
ann.close()
ben.close()
print(f"{len(done)} jobs are done, {len(tried)} of them at the second attempt, {len(hopeless)} was hopeless")
