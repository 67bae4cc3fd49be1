"""aiokafka."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

import aiokafka.admin
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

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
    run,
    shares,
)

# Version 0.8 has its classes for settings and partitions from kafka-python.
_HOME = "aiokafka" if hasattr(aiokafka.admin, "NewPartitions") else "kafka"
_settings: Any = import_module(f"{_HOME}.admin.config_resource")
_partitions: Any = import_module(f"{_HOME}.admin.new_partitions")

# The others need packages that the client does not bring.
CODECS = ("none", "gzip")


class Program:
    def __init__(self, bootstrap_servers: str, name: str) -> None:
        self._servers = bootstrap_servers
        self._name = name

    def steps(self) -> Steps:
        def blocking(step: Callable[[], Awaitable[None]]) -> Callable[[], None]:
            async def bounded() -> None:
                await asyncio.wait_for(step(), TIMEOUT_S)

            return lambda: asyncio.run(bounded())

        return {
            "create": blocking(self._create),
            "produce": blocking(self._produce),
            "consume": blocking(self._consume),
            "group": blocking(self._group),
            "transaction": blocking(self._transaction),
            "admin": blocking(self._administer),
            "delete": blocking(self._delete),
        }

    async def _create(self) -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=self._servers)
        await admin.start()
        await admin.create_topics([NewTopic(self._name, PARTITIONS, 1)])
        check(self._name in await admin.list_topics(), "the topic is not listed")
        await admin.close()

    async def _produce(self) -> None:
        for codec, values in shares(CODECS):
            settings = {"enable_idempotence": True, "compression_type": None if codec == "none" else codec}
            producer = await self._producer(**settings)
            await self._send(producer, values)
            await producer.stop()

    async def _producer(self, **settings: Any) -> AIOKafkaProducer:
        producer = AIOKafkaProducer(bootstrap_servers=self._servers, acks="all", **settings)
        await producer.start()
        return producer

    async def _send(self, producer: AIOKafkaProducer, values: list[str]) -> None:
        sent = [
            await producer.send(self._name, value.encode(), b"key", partition=number % PARTITIONS)
            for number, value in enumerate(values)
        ]
        await asyncio.gather(*sent)

    async def _consumer(self, group: str | None = None, **settings: Any) -> AIOKafkaConsumer:
        reading = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
        consumer = AIOKafkaConsumer(bootstrap_servers=self._servers, **reading, **settings)
        await consumer.start()
        return consumer

    def _partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self._name, partition) for partition in range(PARTITIONS)]

    async def _consume(self) -> None:
        await self._read_assigned(VALUES)

    async def _read_assigned(self, expected: list[str], **settings: Any) -> None:
        consumer = await self._consumer(**settings)
        consumer.assign(self._partitions())
        await _read(consumer, expected)
        await consumer.stop()

    async def _group(self) -> None:
        consumer = await self._consumer(self._name)
        consumer.subscribe([self._name])
        await _read(consumer, VALUES)
        await consumer.commit()
        committed = [await consumer.committed(partition) for partition in self._partitions()]
        await consumer.stop()
        check(sum(offset or 0 for offset in committed) == RECORDS, f"the committed offsets are {committed}")

    async def _transaction(self) -> None:
        producer = await self._producer(transactional_id=self._name)
        await producer.begin_transaction()
        await self._send(producer, [ABORTED])
        await producer.abort_transaction()
        await producer.begin_transaction()
        await self._send(producer, [COMMITTED])
        await producer.commit_transaction()
        await producer.stop()
        await self._read_assigned([*VALUES, COMMITTED], isolation_level="read_committed")

    async def _administer(self) -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=self._servers)
        await admin.start()
        kind = _settings.ConfigResourceType.TOPIC
        await admin.alter_configs([_settings.ConfigResource(kind, self._name, {"retention.ms": RETENTION_MS})])
        described = await admin.describe_configs([_settings.ConfigResource(kind, self._name)])
        check(RETENTION_MS in str(described), "the setting is not changed")
        await admin.create_partitions({self._name: _partitions.NewPartitions(3)})
        (topic,) = await admin.describe_topics([self._name])
        check(len(topic["partitions"]) == 3, "there is no third partition")
        check(self._name in str(await admin.list_consumer_groups()), "the group is not listed")
        check("Empty" in str(await admin.describe_consumer_groups([self._name])), "the group has members")
        await admin.close()

    async def _delete(self) -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=self._servers)
        await admin.start()
        await admin.delete_topics([self._name])
        check(self._name not in await admin.list_topics(), "the topic is still listed")
        await admin.close()


async def _read(consumer: AIOKafkaConsumer, expected: list[str]) -> None:
    values: list[str] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(values) < len(expected) and time.monotonic() < deadline:
        for records in (await consumer.getmany(timeout_ms=100)).values():
            values += [(record.value or b"").decode() for record in records]
    check(sorted(values) == sorted(expected), f"{len(values)} records were read instead of {len(expected)}, or others")


if __name__ == "__main__":
    run(lambda servers, name: Program(servers, name).steps())
