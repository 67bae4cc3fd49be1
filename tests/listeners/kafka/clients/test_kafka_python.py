"""kafka-python."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pytest

from headwater.errors import ErrorCode
from headwater.testing import Broker
from tests.listeners.kafka.clients.client_cases import ClientCases, Message, Refused

with warnings.catch_warnings():
    # kafka-python reads its schemas with a function that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
    from kafka.admin import ConfigResource, ConfigResourceType
    from kafka.errors import KafkaError
    from kafka.structs import TopicPartition

T = TypeVar("T")

TIMEOUT_S = 20


class KafkaPythonAdapter:
    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        self.admin: Any = KafkaAdminClient(bootstrap_servers=bootstrap_servers)

    def close(self) -> None:
        self.admin.close()

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
        options: dict[str, Any] = {
            "compression_type": None if compression == "none" else compression,
            "acks": acks if acks == "all" else int(acks),
            "enable_idempotence": idempotent,
            "max_request_size": 12_000_000,
            "linger_ms": 1,
        }
        producer: Any = KafkaProducer(bootstrap_servers=self._bootstrap_servers, **options)
        try:
            sent = [
                producer.send(
                    topic,
                    message.value,
                    message.key,
                    partition=partition,
                    timestamp_ms=message.timestamp,
                    headers=list(message.headers),
                )
                for message in messages
            ]
            producer.flush(TIMEOUT_S)
            return [_asked(lambda one=one: one.get(TIMEOUT_S)).offset for one in sent]
        finally:
            producer.close()

    def _with_consumer(self, use: Callable[[Any], T]) -> T:
        options: dict[str, Any] = {
            "group_id": None,
            "enable_auto_commit": False,
            "auto_offset_reset": "none",
            "max_partition_fetch_bytes": 12_000_000,
            "fetch_max_wait_ms": 100,
        }
        consumer: Any = KafkaConsumer(bootstrap_servers=self._bootstrap_servers, **options)
        try:
            return _asked(lambda: use(consumer))
        finally:
            consumer.close()

    def consume(self, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Message]:
        where = TopicPartition(topic, partition)

        def read(consumer: Any) -> list[Message]:
            consumer.assign([where])
            consumer.seek(where, offset)
            found: list[Message] = []
            while len(found) < count:
                polled = consumer.poll(TIMEOUT_S * 1000, max_records=count - len(found))
                assert polled, f"only {len(found)} of {count} arrived"
                found += [Message(one.value, one.key, tuple(one.headers), one.timestamp) for one in polled[where]]
            return found

        return self._with_consumer(read)

    def offset_at(self, topic: str, timestamp: int, *, partition: int = 0) -> int | None:
        where = TopicPartition(topic, partition)
        found = self._with_consumer(lambda consumer: consumer.offsets_for_times({where: timestamp}))[where]
        return found.offset if found is not None else None

    def offsets(self, topic: str, *, partition: int = 0) -> tuple[int, int]:
        where = TopicPartition(topic, partition)
        return self._with_consumer(
            lambda consumer: (consumer.beginning_offsets([where])[where], consumer.end_offsets([where])[where])
        )

    def create(self, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        options = {"num_partitions": partitions, "replication_factor": 1, "configs": dict(config or {})}
        _asked(lambda: self.admin.create_topics({topic: options}))

    def delete(self, topic: str) -> None:
        _asked(lambda: self.admin.delete_topics([topic]))

    def add_partitions(self, topic: str, count: int) -> None:
        _asked(lambda: self.admin.create_partitions({topic: count}))

    def partition_count(self, topic: str) -> int:
        (found,) = self.admin.describe_topics([topic])
        return len(found["partitions"])

    def topics(self) -> set[str]:
        return set(self.admin.list_topics())

    def config(self, topic: str) -> dict[str, str | None]:
        (found,) = self.admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all")[
            "topic"
        ].values()
        return {name: entry["value"] for name, entry in found.items()}

    def alter_config(self, topic: str, config: Mapping[str, Any], *, incremental: bool = True) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs=dict(config))
        self.admin.alter_configs([resource], incremental=incremental)

    def replace_config(self, topic: str, config: Mapping[str, str]) -> None:
        # `alter_configs` by itself adds the earlier settings, which would hide that the broker replaces all of them.
        self.admin.reset_configs([ConfigResource(ConfigResourceType.TOPIC, topic)], incremental=False)
        self.alter_config(topic, config, incremental=False)

    def delete_records(self, topic: str, before: int, *, partition: int = 0) -> int:
        where = TopicPartition(topic, partition)
        return _asked(lambda: self.admin.delete_records({where: before}))[where]["low_watermark"]

    def cluster(self) -> tuple[str, list[int]]:
        found = self.admin.describe_cluster()
        return found["cluster_id"], [node["broker_id"] for node in found["brokers"]]


def _asked(ask: Callable[[], T]) -> T:
    try:
        return ask()
    except KafkaError as error:
        raise Refused(getattr(error, "errno", -1)) from error


@pytest.fixture(scope="module")
def adapter(broker: Broker) -> Iterator[KafkaPythonAdapter]:
    adapter = KafkaPythonAdapter(broker.bootstrap_servers)
    yield adapter
    adapter.close()


class TestKafkaPython(ClientCases):
    def test_one_setting_is_changed_at_a_time(self, adapter: KafkaPythonAdapter, name: str) -> None:
        adapter.create(name, config={"retention.ms": "1000"})
        adapter.alter_config(name, {"cleanup.policy": ("append", "compact"), "segment.bytes": "1048576"})
        found = adapter.config(name)
        assert (found["cleanup.policy"], found["segment.bytes"]) == ("delete,compact", "1048576")
        assert found["retention.ms"] == "1000"

        adapter.alter_config(name, {"cleanup.policy": ("subtract", "delete"), "retention.ms": ("delete", None)})
        found = adapter.config(name)
        assert (found["cleanup.policy"], found["retention.ms"]) == ("compact", "604800000")

    def test_log_directories_report_the_size_of_a_partition(
        self, adapter: KafkaPythonAdapter, broker: Broker, name: str
    ) -> None:
        adapter.create(name, 2)
        adapter.produce(name, [Message(b"v" * 1000)])

        (described,) = adapter.admin.describe_log_dirs({name: [0, 1]})
        (directory,) = described["log_dirs"]
        (topic,) = directory["topics"]
        sizes = {one["partition_index"]: one["partition_size"] for one in topic["partitions"]}
        assert directory["log_dir"] == str(broker.data_directory)
        assert sizes[0] == (broker.data_directory / f"{name}-0" / f"{0:020}.log").stat().st_size > 1000
        assert sizes[1] == 0
        assert directory["total_bytes"] > directory["usable_bytes"] > 0

    def test_topics_are_described_page_by_page(self, adapter: KafkaPythonAdapter, name: str) -> None:
        adapter.create(name, 3)

        found = adapter.admin.describe_topic_partitions([name], response_partition_limit=2)

        assert [one["partition_index"] for one in found["topics"][0]["partitions"]] == [0, 1]
        assert found["next_cursor"]["partition_index"] == 2

    def test_a_deleted_offset_is_an_error_for_the_consumer(self, adapter: KafkaPythonAdapter, name: str) -> None:
        adapter.create(name)
        adapter.produce(name, [Message(b"v")] * 5)
        adapter.delete_records(name, 3)

        with pytest.raises(Refused) as refused:
            adapter.consume(name, 1, offset=0)
        assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
