"""librdkafka, through confluent-kafka."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka import Message as Delivered
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,  # pyright: ignore[reportPrivateImportUsage]
    ConfigEntry,  # pyright: ignore[reportPrivateImportUsage]
    ConfigResource,  # pyright: ignore[reportPrivateImportUsage]
    NewPartitions,  # pyright: ignore[reportPrivateImportUsage]
    NewTopic,  # pyright: ignore[reportPrivateImportUsage]
    OffsetSpec,  # pyright: ignore[reportPrivateImportUsage]
)

from headwater.errors import ErrorCode
from headwater.testing import Broker
from tests.listeners.kafka.clients.client_cases import ClientCases, Message, Refused

TIMEOUT_S = 20.0


# librdkafka reports this with an error code of its own.
CODES = {KafkaError._AUTO_OFFSET_RESET: ErrorCode.OFFSET_OUT_OF_RANGE}


def _refuse(error: KafkaError | None) -> None:
    if error is not None:
        raise Refused(CODES.get(error.code(), error.code()))


def _done(futures: Mapping[Any, Any]) -> Any:
    """The result of the single future."""
    (future,) = futures.values()
    try:
        return future.result(TIMEOUT_S)
    except KafkaException as error:
        raise Refused(error.args[0].code()) from error


class ConfluentAdapter:
    def __init__(self, bootstrap_servers: str) -> None:
        # Short waits: the broker under test answers at once.
        self._common = {"bootstrap.servers": bootstrap_servers, "topic.metadata.refresh.fast.interval.ms": 10}
        self.admin = AdminClient(dict(self._common))

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
        producer = Producer(
            {
                **self._common,
                "compression.type": compression,
                "acks": acks,
                "enable.idempotence": idempotent,
                "message.max.bytes": 12_000_000,
                "linger.ms": 1,
            }
        )
        offsets: list[int] = []
        errors: list[KafkaError] = []

        def delivered(error: KafkaError | None, message: Delivered) -> None:
            if error is not None:
                errors.append(error)
            offsets.append(int(message.offset() or 0))

        for message in messages:
            producer.produce(
                topic,
                message.value,
                message.key,
                partition,
                on_delivery=delivered,
                timestamp=message.timestamp,
                headers=list(message.headers),
            )
        assert producer.flush(TIMEOUT_S) == 0
        _refuse(errors[0] if errors else None)
        return offsets

    def _with_consumer(self, use: Callable[[Consumer], Any]) -> Any:
        consumer = Consumer(
            {
                **self._common,
                "group.id": "none",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.message.max.bytes": 12_000_000,
                "fetch.wait.max.ms": 100,
            }
        )
        try:
            return use(consumer)
        finally:
            consumer.close()

    def consume(self, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Message]:
        def read(consumer: Consumer) -> list[Message]:
            consumer.assign([TopicPartition(topic, partition, offset)])
            found: list[Message] = []
            while len(found) < count:
                message = consumer.poll(TIMEOUT_S)
                assert message is not None, f"only {len(found)} of {count} arrived"
                _refuse(message.error())
                headers: Any = message.headers() or ()
                found.append(Message(message.value(), message.key(), tuple(headers), message.timestamp()[1]))
            return found

        return self._with_consumer(read)

    def offset_at(self, topic: str, timestamp: int, *, partition: int = 0) -> int | None:
        def look_up(consumer: Consumer) -> int | None:
            (found,) = consumer.offsets_for_times([TopicPartition(topic, partition, timestamp)], TIMEOUT_S)
            return found.offset if found.offset >= 0 else None

        return self._with_consumer(look_up)

    def offsets(self, topic: str, *, partition: int = 0) -> tuple[int, int]:
        return self._with_consumer(
            lambda consumer: consumer.get_watermark_offsets(TopicPartition(topic, partition), TIMEOUT_S)
        )

    def create(self, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        _done(self.admin.create_topics([NewTopic(topic, partitions, 1, config=dict(config or {}))]))

    def delete(self, topic: str) -> None:
        _done(self.admin.delete_topics([topic]))

    def add_partitions(self, topic: str, count: int) -> None:
        _done(self.admin.create_partitions([NewPartitions(topic, count)]))

    def partition_count(self, topic: str) -> int:
        return len(self.admin.list_topics(topic, TIMEOUT_S).topics[topic].partitions)

    def topics(self) -> set[str]:
        return set(self.admin.list_topics(timeout=TIMEOUT_S).topics)

    def config(self, topic: str) -> dict[str, str | None]:
        found = _done(self.admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]))
        return {name: entry.value for name, entry in found.items()}

    def replace_config(self, topic: str, config: Mapping[str, str]) -> None:
        with pytest.warns(DeprecationWarning, match="incremental_alter_configs"):
            _done(self.admin.alter_configs([ConfigResource(ConfigResource.Type.TOPIC, topic, set_config=dict(config))]))

    def delete_records(self, topic: str, before: int, *, partition: int = 0) -> int:
        return _done(self.admin.delete_records([TopicPartition(topic, partition, before)])).low_watermark

    def cluster(self) -> tuple[str, list[int]]:
        found = self.admin.describe_cluster().result(TIMEOUT_S)
        return found.cluster_id, [node.id for node in found.nodes]


@pytest.fixture(scope="module")
def adapter(broker: Broker) -> Iterator[ConfluentAdapter]:
    adapter = ConfluentAdapter(broker.bootstrap_servers)
    yield adapter
    # librdkafka's threads end with the last reference; they should end before the broker stops.
    del adapter.admin


class TestConfluent(ClientCases):
    def test_one_setting_is_changed_at_a_time(self, adapter: ConfluentAdapter, name: str) -> None:
        adapter.create(name, config={"retention.ms": "1000"})

        def change(**change: Any) -> None:
            resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[ConfigEntry(**change)])
            _done(adapter.admin.incremental_alter_configs([resource]))

        change(name="cleanup.policy", value="compact", incremental_operation=AlterConfigOpType.APPEND)
        change(name="segment.bytes", value="1048576", incremental_operation=AlterConfigOpType.SET)
        found = adapter.config(name)
        assert found["cleanup.policy"] == "delete,compact"
        assert (found["segment.bytes"], found["retention.ms"]) == ("1048576", "1000")

        change(name="cleanup.policy", value="delete", incremental_operation=AlterConfigOpType.SUBTRACT)
        change(name="retention.ms", value=None, incremental_operation=AlterConfigOpType.DELETE)
        found = adapter.config(name)
        assert (found["cleanup.policy"], found["retention.ms"]) == ("compact", "604800000")

    def test_the_settings_of_a_group_are_changed_and_described(self, adapter: ConfluentAdapter, name: str) -> None:
        session = "consumer.session.timeout.ms"
        entry = ConfigEntry(session, "50000", incremental_operation=AlterConfigOpType.SET)
        group = ConfigResource(ConfigResource.Type.GROUP, name, incremental_configs=[entry])
        _done(adapter.admin.incremental_alter_configs([group]))
        told = _done(adapter.admin.describe_configs([ConfigResource(ConfigResource.Type.GROUP, name)]))
        found = {key: (found.value, found.is_default) for key, found in told.items() if not key.startswith("share.")}
        assert found == {session: ("50000", False), "consumer.heartbeat.interval.ms": ("200", False)}

    def test_offsets_are_listed_by_kind_and_timestamp(self, adapter: ConfluentAdapter, name: str) -> None:
        adapter.create(name)
        adapter.produce(name, [Message(b"%d" % t, timestamp=1_700_000_000_000 + t) for t in (5, 9, 7)])

        def listed(spec: Any) -> int:
            asked = {TopicPartition(name, 0): spec}
            return _done(adapter.admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED)).offset

        assert listed(OffsetSpec.earliest()) == 0
        assert listed(OffsetSpec.latest()) == 3
        assert listed(OffsetSpec.max_timestamp()) == 1
        assert listed(OffsetSpec.for_timestamp(1_700_000_000_006)) == 1

    def test_a_deleted_offset_is_an_error_for_the_consumer(self, adapter: ConfluentAdapter, name: str) -> None:
        adapter.create(name)
        adapter.produce(name, [Message(b"v")] * 5)
        adapter.delete_records(name, 3)

        with pytest.raises(Refused) as refused:
            adapter.consume(name, 1, offset=0)
        assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
