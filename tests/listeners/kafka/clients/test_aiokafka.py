"""aiokafka, with one event loop per call."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError

from headwater.errors import ErrorCode
from headwater.testing import Broker
from tests.listeners.kafka.clients.client_cases import ClientCases, Message, Refused

T = TypeVar("T")


def _refuse(code: int) -> None:
    if code:
        raise Refused(code)


class AiokafkaAdapter:
    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap_servers = bootstrap_servers

    def _run(self, client_type: Callable[..., Any], use: Callable[[Any], Awaitable[T]], **options: Any) -> T:
        async def run() -> T:
            client = client_type(bootstrap_servers=self._bootstrap_servers, **options)
            await client.start()
            try:
                return await use(client)
            finally:
                await (client.close() if isinstance(client, AIOKafkaAdminClient) else client.stop())

        try:
            return asyncio.run(run())
        except KafkaError as error:
            raise Refused(getattr(error, "errno", -1)) from error

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int = 0,
        compression: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> list[int]:
        async def send(producer: Any) -> list[int]:
            sent = [
                await producer.send(
                    topic,
                    message.value,
                    key=message.key,
                    partition=partition,
                    timestamp_ms=message.timestamp,
                    headers=list(message.headers),
                )
                for message in messages
            ]
            await producer.flush()
            acknowledged = [await one for one in sent]
            return [one.offset for one in acknowledged if one is not None]

        return self._run(
            AIOKafkaProducer,
            send,
            compression_type=None if compression == "none" else compression,
            acks=acks if acks == "all" else int(acks),
            enable_idempotence=idempotent,
            max_request_size=12_000_000,
            linger_ms=1,
        )

    def _with_consumer(self, use: Callable[[Any], Awaitable[T]]) -> T:
        return self._run(
            AIOKafkaConsumer,
            use,
            group_id=None,
            auto_offset_reset="none",
            max_partition_fetch_bytes=12_000_000,
            fetch_max_wait_ms=100,
        )

    def consume(self, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Message]:
        async def read(consumer: Any) -> list[Message]:
            consumer.assign([TopicPartition(topic, partition)])
            consumer.seek(TopicPartition(topic, partition), offset)
            found = [await consumer.getone() for _ in range(count)]
            return [Message(one.value, one.key, tuple(one.headers), one.timestamp) for one in found]

        return self._with_consumer(read)

    def offset_at(self, topic: str, timestamp: int, *, partition: int = 0) -> int | None:
        where = TopicPartition(topic, partition)

        async def look_up(consumer: Any) -> int | None:
            found = (await consumer.offsets_for_times({where: timestamp}))[where]
            return found.offset if found is not None else None

        return self._with_consumer(look_up)

    def offsets(self, topic: str, *, partition: int = 0) -> tuple[int, int]:
        where = TopicPartition(topic, partition)

        async def look_up(consumer: Any) -> tuple[int, int]:
            return (await consumer.beginning_offsets([where]))[where], (await consumer.end_offsets([where]))[where]

        return self._with_consumer(look_up)

    def _administer(self, use: Callable[[AIOKafkaAdminClient], Awaitable[T]]) -> T:
        return self._run(AIOKafkaAdminClient, use)

    def create(self, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        asked = NewTopic(topic, partitions, 1, topic_configs=dict(config or {}))
        response: Any = self._administer(lambda admin: admin.create_topics([asked]))
        _refuse(response.topic_errors[0][1])

    def delete(self, topic: str) -> None:
        response: Any = self._administer(lambda admin: admin.delete_topics([topic]))
        _refuse(response.topic_error_codes[0][1])

    def add_partitions(self, topic: str, count: int) -> None:
        self._administer(lambda admin: admin.create_partitions({topic: NewPartitions(count)}))

    def partition_count(self, topic: str) -> int:
        (found,) = self._administer(lambda admin: admin.describe_topics([topic]))
        return len(found["partitions"])

    def topics(self) -> set[str]:
        return set(self._administer(lambda admin: admin.list_topics()))

    def config(self, topic: str) -> dict[str, str | None]:
        asked = ConfigResource(ConfigResourceType.TOPIC, topic)
        responses: Any = self._administer(lambda admin: admin.describe_configs([asked]))
        _refuse(responses[0].resources[0][0])
        return {entry[0]: entry[1] for entry in responses[0].resources[0][4]}

    def replace_config(self, topic: str, config: Mapping[str, str]) -> None:
        asked = ConfigResource(ConfigResourceType.TOPIC, topic, dict(config))
        responses: Any = self._administer(lambda admin: admin.alter_configs([asked]))
        _refuse(responses[0].resources[0][0])

    def delete_records(self, topic: str, before: int, *, partition: int = 0) -> int:
        where = TopicPartition(topic, partition)
        return self._administer(lambda admin: admin.delete_records({where: RecordsToDelete(before)}))[where]

    def cluster(self) -> tuple[str, list[int]]:
        found = self._administer(lambda admin: admin.describe_cluster())
        return found["cluster_id"], [node["node_id"] for node in found["brokers"]]


@pytest.fixture(scope="module")
def adapter(broker: Broker) -> AiokafkaAdapter:
    return AiokafkaAdapter(broker.bootstrap_servers)


class TestAiokafka(ClientCases):
    def test_a_deleted_offset_is_an_error_for_the_consumer(self, adapter: AiokafkaAdapter, name: str) -> None:
        adapter.create(name)
        adapter.produce(name, [Message(b"v")] * 5)
        adapter.delete_records(name, 3)

        with pytest.raises(Refused) as refused:
            adapter.consume(name, 1, offset=0)
        assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
