"""kafka-python, from version 2.0 on."""

from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from kafka.structs import TopicPartition

from tests.interop.matrix.programs.steps import (
    ABORTED,
    COMMITTED,
    PARTITIONS,
    RECORDS,
    RETENTION_MS,
    TIMEOUT_S,
    VALUES,
    Steps,
    check,
    read,
    run,
    shares,
)

# The others need packages that the client does not bring.
CODECS = (None, "gzip")


class Program:
    def __init__(self, bootstrap_servers: str, name: str) -> None:
        self._servers = bootstrap_servers
        self._name = name

    def steps(self) -> Steps:
        return {
            "create": self._create,
            "produce": self._produce,
            "consume": self._consume,
            "group": self._group,
            "transaction": self._transaction,
            "admin": self._administer,
            "delete": self._delete,
        }

    def _create(self) -> None:
        admin = KafkaAdminClient(bootstrap_servers=self._servers)
        admin.create_topics([NewTopic(self._name, PARTITIONS, 1)])
        check(self._name in admin.list_topics(), "the topic is not listed")
        admin.close()

    def _produce(self) -> None:
        for codec, values in shares(codec or "none" for codec in CODECS):
            producer = self._producer(compression_type=None if codec == "none" else codec)
            self._send(producer, values)
            producer.close()

    def _producer(self, **settings: Any) -> KafkaProducer:
        if "enable_idempotence" in KafkaProducer.DEFAULT_CONFIG:
            settings["enable_idempotence"] = True
        return KafkaProducer(bootstrap_servers=self._servers, acks="all", **settings)

    def _send(self, producer: KafkaProducer, values: list[str]) -> None:
        sent = [
            producer.send(self._name, value.encode(), b"key", partition=number % PARTITIONS)
            for number, value in enumerate(values)
        ]
        for future in sent:
            future.get(TIMEOUT_S)

    def _consumer(self, group: str | None = None, **settings: Any) -> KafkaConsumer:
        reading = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
        return KafkaConsumer(bootstrap_servers=self._servers, **reading, **settings)

    def _partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self._name, partition) for partition in range(PARTITIONS)]

    def _consume(self) -> None:
        consumer = self._consumer()
        consumer.assign(self._partitions())
        _read(consumer, VALUES)
        consumer.close()

    def _group(self) -> None:
        consumer = self._consumer(self._name)
        consumer.subscribe([self._name])
        # Waits for the metadata. If a poll times out while kafka-python 3.0 joins again because it learns of partitions
        # late, it never looks at the answer.
        consumer.topics()
        _read(consumer, VALUES)
        consumer.commit()
        committed = sum(consumer.committed(partition) or 0 for partition in self._partitions())
        consumer.close()
        check(committed == RECORDS, f"{committed} records are committed")

    def _transaction(self) -> None:
        producer = self._producer(transactional_id=self._name)
        producer.init_transactions()
        producer.begin_transaction()
        self._send(producer, [ABORTED])
        producer.abort_transaction()
        producer.begin_transaction()
        self._send(producer, [COMMITTED])
        producer.commit_transaction()
        producer.close()
        consumer = self._consumer(isolation_level="read_committed")
        consumer.assign(self._partitions())
        _read(consumer, [*VALUES, COMMITTED])
        consumer.close()

    def _administer(self) -> None:
        admin: Any = KafkaAdminClient(bootstrap_servers=self._servers)
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, self._name, {"retention.ms": RETENTION_MS})])
        described = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, self._name)])
        check(RETENTION_MS in str(described), "the setting is not changed")
        admin.create_partitions({self._name: NewPartitions(3)})
        (topic,) = admin.describe_topics([self._name])
        check(len(topic["partitions"]) == 3, "there is no third partition")
        # Renamed in 3.0.
        is_old = hasattr(admin, "list_consumer_groups")
        listed = admin.list_consumer_groups() if is_old else admin.list_groups()
        check(self._name in str(listed), "the group is not listed")
        groups = admin.describe_consumer_groups([self._name]) if is_old else admin.describe_groups([self._name])
        check("Empty" in str(groups), "the group has members")
        admin.close()

    def _delete(self) -> None:
        admin = KafkaAdminClient(bootstrap_servers=self._servers)
        admin.delete_topics([self._name])
        check(self._name not in admin.list_topics(), "the topic is still listed")
        admin.close()


def _read(consumer: KafkaConsumer, expected: list[str]) -> None:
    read(lambda: [each.value.decode() for polled in consumer.poll(100).values() for each in polled], expected)


if __name__ == "__main__":
    run(lambda servers, name: Program(servers, name).steps())
