"""confluent-kafka, the Python client around librdkafka."""

# What the package documents as public it does not mark as such for type checkers.
# pyright: reportPrivateImportUsage=false

from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigEntry, ConfigResource, NewPartitions, NewTopic

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

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Program:
    def __init__(self, bootstrap_servers: str, name: str) -> None:
        self._settings: dict[str, Any] = {"bootstrap.servers": bootstrap_servers, "log_level": 0}
        self._name = name

    def steps(self) -> Steps:
        return {
            "create": self._create,
            "produce": self._produce,
            "consume": self._consume,
            "group": lambda: self._group(self._name, {}),
            "consumer-protocol": lambda: self._group(f"{self._name}-2", {"group.protocol": "consumer"}),
            "transaction": self._transaction,
            "admin": self._administer,
            "delete": self._delete,
        }

    def _create(self) -> None:
        admin = AdminClient(self._settings)
        for created in admin.create_topics([NewTopic(self._name, PARTITIONS, 1)]).values():
            created.result(TIMEOUT_S)
        found = admin.list_topics(self._name, timeout=TIMEOUT_S).topics[self._name]
        check(len(found.partitions) == PARTITIONS, f"the topic has {len(found.partitions)} partitions")

    def _produce(self) -> None:
        for codec, values in shares(CODECS):
            self._send(Producer({**self._settings, "enable.idempotence": True, "compression.type": codec}), values)

    def _send(self, producer: Producer, values: list[str]) -> None:
        failures: list[str] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(str(error))

        for number, value in enumerate(values):
            producer.produce(self._name, value, "key", number % PARTITIONS, on_delivery=delivered)
        check(producer.flush(TIMEOUT_S) == 0, "not all records were acknowledged")
        check(not failures, f"{len(failures)} records were refused, the first: {failures[:1]}")

    def _consumer(self, group: str, settings: dict[str, str]) -> Consumer:
        reading = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        return Consumer({**self._settings, **reading, **settings})

    def _partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self._name, partition) for partition in range(PARTITIONS)]

    def _consume(self) -> None:
        self._read_assigned({}, VALUES)

    def _read_assigned(self, settings: dict[str, str], expected: list[str]) -> None:
        consumer = self._consumer(f"{self._name}-unused", settings)
        # -2: the earliest offset.
        consumer.assign([TopicPartition(each.topic, each.partition, -2) for each in self._partitions()])
        _read(consumer, expected)
        consumer.close()

    def _group(self, group: str, settings: dict[str, str]) -> None:
        consumer = self._consumer(group, settings)
        consumer.subscribe([self._name])
        _read(consumer, VALUES)
        consumer.commit(asynchronous=False)
        committed = sum(each.offset for each in consumer.committed(self._partitions(), TIMEOUT_S))
        consumer.close()
        check(committed == RECORDS, f"{committed} records are committed")

    def _transaction(self) -> None:
        producer = Producer({**self._settings, "transactional.id": self._name})
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        self._send(producer, [ABORTED])
        producer.abort_transaction(TIMEOUT_S)
        producer.begin_transaction()
        self._send(producer, [COMMITTED])
        producer.commit_transaction(TIMEOUT_S)
        self._read_assigned({"isolation.level": "read_committed"}, [*VALUES, COMMITTED])

    def _administer(self) -> None:
        admin = AdminClient(self._settings)
        self._alter(admin)
        resource = ConfigResource(ConfigResource.Type.TOPIC, self._name)
        (described,) = admin.describe_configs([resource]).values()
        check(described.result(TIMEOUT_S)["retention.ms"].value == RETENTION_MS, "the setting is not changed")
        admin.create_partitions([NewPartitions(self._name, 3)])[self._name].result(TIMEOUT_S)
        partitions = admin.list_topics(self._name, timeout=TIMEOUT_S).topics[self._name].partitions
        check(len(partitions) == 3, "there is no third partition")
        self._describe_group(admin)

    def _alter(self, admin: AdminClient) -> None:
        # From 2.2 on.
        if hasattr(admin, "incremental_alter_configs"):
            from confluent_kafka.admin import AlterConfigOpType

            setting = ConfigEntry("retention.ms", RETENTION_MS, incremental_operation=AlterConfigOpType.SET)
            resource = ConfigResource(ConfigResource.Type.TOPIC, self._name, incremental_configs=[setting])
            (altered,) = admin.incremental_alter_configs([resource]).values()
        else:
            settings = {"retention.ms": RETENTION_MS}
            resource = ConfigResource(ConfigResource.Type.TOPIC, self._name, set_config=settings)
            (altered,) = admin.alter_configs([resource]).values()
        altered.result(TIMEOUT_S)

    def _describe_group(self, admin: AdminClient) -> None:
        groups: list[Any] = admin.list_groups(timeout=TIMEOUT_S)
        check(any(group.id == self._name for group in groups), "the group is not listed")
        # From 2.0 on.
        if hasattr(admin, "describe_consumer_groups"):
            described = admin.describe_consumer_groups([self._name])[self._name].result(TIMEOUT_S)
            check(not described.members, "the group has members")

    def _delete(self) -> None:
        admin = AdminClient(self._settings)
        for deleted in admin.delete_topics([self._name]).values():
            deleted.result(TIMEOUT_S)


def _read(consumer: Consumer, expected: list[str]) -> None:
    def poll() -> list[str]:
        values: list[str] = []
        for message in consumer.consume(RECORDS, 0.1):
            problem = message.error()
            check(problem is None, str(problem))
            values.append((message.value() or b"").decode())
        return values

    read(poll, expected)


if __name__ == "__main__":
    run(lambda servers, name: Program(servers, name).steps())
