"""confluent-kafka: librdkafka from Python, the client that needs nothing but PyPI."""

# What the package documents as public it does not mark as such for type checkers.
# pyright: reportPrivateImportUsage=false

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from tests.interop.exchange import (
    BEGINNING,
    Acks,
    At,
    Compression,
    FromTime,
    Position,
    Record,
    Refused,
    Replicas,
    Setting,
    Start,
    Topic,
    topic_id,
)

T = TypeVar("T")

_TIMEOUT_S = 60
_RECORD_BYTES_MAX = 16 << 20
# librdkafka has names of its own for some errors.
_KAFKA_NAMES = {
    "TOPIC_EXCEPTION": "INVALID_TOPIC_EXCEPTION",
    "UNKNOWN_TOPIC_OR_PART": "UNKNOWN_TOPIC_OR_PARTITION",
    "MSG_SIZE_TOO_LARGE": "MESSAGE_TOO_LARGE",
}


class Confluent:
    def __init__(self, bootstrap_servers: str) -> None:
        self._settings: dict[str, Any] = {"bootstrap.servers": bootstrap_servers, "log_level": 0}
        self._admin = AdminClient(self._settings)

    # -- records

    def produce(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        partition: int = 0,
        compression: Compression = "none",
        acks: Acks = "all",
    ) -> Sequence[int]:
        producer = Producer(
            {
                **self._settings,
                "compression.type": compression,
                "acks": acks,
                "enable.idempotence": acks == "all",
                "message.max.bytes": _RECORD_BYTES_MAX,
            }
        )
        offsets: list[int] = []

        def done(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                raise _refused(error)
            offset = message.offset()
            offsets.append(-1 if offset is None else offset)

        for record in records:
            producer.produce(
                topic,
                record.value,
                record.key,
                partition,
                done,
                timestamp=record.timestamp_ms or 0,
                headers=list(record.headers),
            )
        assert producer.flush(_TIMEOUT_S) == 0
        return offsets

    def consume(self, topic: str, count: int, start: Start = BEGINNING, *, partition: int = 0) -> dict[int, Record]:
        consumer = Consumer({**self._settings, "group.id": "interop", "enable.auto.commit": False})
        try:
            if isinstance(start, FromTime):
                asked = TopicPartition(topic, partition, start.timestamp_ms)
                consumer.assign(consumer.offsets_for_times([asked], timeout=_TIMEOUT_S))
            else:
                consumer.assign([TopicPartition(topic, partition, start.offset)])
            read: dict[int, Record] = {}
            while len(read) < count:
                message = consumer.poll(_TIMEOUT_S)
                assert message is not None, f"only {len(read)} of {count} records came"
                if (error := message.error()) is not None:
                    raise _refused(error)
                offset = message.offset()
                assert offset is not None
                headers = cast("Sequence[tuple[str, bytes | None]]", message.headers() or ())
                read[offset] = Record(message.key(), message.value(), tuple(headers), message.timestamp()[1])
            return read
        finally:
            consumer.close()

    def offset(self, topic: str, at: At, *, partition: int = 0) -> Position:
        place = TopicPartition(topic, partition)
        found = _result(self._admin.list_offsets({place: _spec(at)})[place])
        return Position(found.offset, found.timestamp)

    # -- topics

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        *,
        replication: int = 1,
        validate_only: bool = False,
    ) -> None:
        created = NewTopic(topic, partitions, replication, config=dict(configs or {}))
        _result(self._admin.create_topics([created], validate_only=validate_only)[topic])

    def delete_topic(self, topic: str) -> None:
        _result(self._admin.delete_topics([topic])[topic])

    def topics(self) -> set[str]:
        return set(self._admin.list_topics(timeout=_TIMEOUT_S).topics)

    def describe_topic(self, topic: str) -> Topic:
        described = _result(self._admin.describe_topics(TopicCollection([topic]))[topic])
        partitions = (
            Replicas(each.leader.id, tuple(node.id for node in each.replicas), tuple(node.id for node in each.isr))
            for each in described.partitions
        )
        return Topic(topic_id(str(described.topic_id)), tuple(partitions))

    def add_partitions(self, topic: str, total: int) -> None:
        _result(self._admin.create_partitions([NewPartitions(topic, total)])[topic])

    def alter_configs(self, topic: str, changed: Mapping[str, str], deleted: Sequence[str] = ()) -> None:
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in changed.items()
        ]
        entries += [ConfigEntry(name, "", incremental_operation=AlterConfigOpType.DELETE) for name in deleted]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        _result(self._admin.incremental_alter_configs([resource])[resource])

    def describe_configs(self, topic: str) -> dict[str, Setting]:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        configs = _result(self._admin.describe_configs([resource])[resource])
        return {name: Setting(entry.value, ConfigSource(entry.source).name) for name, entry in configs.items()}

    def delete_records(self, topic: str, before: int, *, partition: int = 0) -> int:
        place = TopicPartition(topic, partition, before)
        return _result(self._admin.delete_records([place])[place]).low_watermark


def _spec(at: At) -> Any:
    match at:
        case "earliest":
            return OffsetSpec.earliest()
        case "latest":
            return OffsetSpec.latest()
        case "maxTimestamp":
            return OffsetSpec.max_timestamp()
        case _:
            return OffsetSpec.for_timestamp(at)


def _result(future: Future[T]) -> T:
    try:
        return future.result(_TIMEOUT_S)
    except KafkaException as exception:
        raise _refused(exception.args[0]) from exception


def _refused(error: KafkaError) -> Refused:
    return Refused(_KAFKA_NAMES.get(error.name(), error.name()), error.str())
