"""MirrorMaker 2 copies topics, their settings and the offsets of groups to Headwater, from Headwater and from Kafka."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.interop import toolchain
from tests.interop.cells import RECORDS
from tests.interop.clients.confluent import Confluent
from tests.interop.connect_worker import start_mirror_maker
from tests.interop.exchange import Record
from tests.interop.kafka_server import KafkaServer
from tests.support.broker.processes import BrokerProcess, wait_until

pytestmark = pytest.mark.interop

PARTITIONS = 2
SETTINGS = {"retention.ms": "-1", "max.message.bytes": "2000000"}


@pytest.fixture
def source(request: pytest.FixtureRequest) -> str:
    """The bootstrap servers of the cluster that is copied, which the test's parameter names."""
    if request.param == "headwater":
        broker: BrokerProcess = request.getfixturevalue("broker")
        return broker.bootstrap_servers
    server: KafkaServer = request.getfixturevalue("apache_kafka")
    return server.bootstrap_servers()


@pytest.fixture
def target(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", {"group.initial.rebalance.delay.ms": "0"}) as broker:
        yield broker


@pytest.mark.parametrize("source", ["headwater", "kafka"], indirect=True)
def test_a_topic_its_settings_and_the_offsets_of_its_group_are_mirrored(
    source: str, target: BrokerProcess, new_topic: Callable[[str], str], tmp_path: Path
) -> None:
    topic = new_topic("mirrored")
    mirrored = f"source.{topic}"
    ours, theirs = Confluent(source), Confluent(target.bootstrap_servers)
    ours.create_topic(topic, PARTITIONS, SETTINGS)
    for partition in range(PARTITIONS):
        ours.produce(topic, RECORDS, partition=partition)
    assert len(consume_as_group(source, topic, topic, PARTITIONS * len(RECORDS))) == PARTITIONS * len(RECORDS)
    settings = _settings(source, target.bootstrap_servers, topic)

    mirror = start_mirror_maker(toolchain.connect_worker(), tmp_path, settings)
    try:
        wait_until(lambda: mirrored in theirs.topics(), "the topic is not created")
        assert [read(theirs, mirrored, len(RECORDS), partition) for partition in range(PARTITIONS)] == [
            read(ours, topic, len(RECORDS), partition) for partition in range(PARTITIONS)
        ]
        ours.produce(topic, [Record(b"later", b"record")])
        assert read(theirs, mirrored, len(RECORDS) + 1, 0)[-1].key == b"later"
        assert {name: theirs.describe_configs(mirrored)[name].value for name in SETTINGS} == SETTINGS
        wait_until(
            lambda: min(committed(target.bootstrap_servers, topic, mirrored)) >= len(RECORDS),
            "the group's offsets are not there",
        )
    finally:
        mirror.kill()
    assert consume_as_group(target.bootstrap_servers, topic, mirrored, 1) == [b"later"]


def read(client: Confluent, topic: str, count: int, partition: int) -> Sequence[Record]:
    """The records in the order of their offsets, which may have gaps."""
    found = client.consume(topic, count, partition=partition)
    return [found[offset] for offset in sorted(found)]


def consume_as_group(bootstrap_servers: str, group: str, topic: str, count: int) -> list[bytes | None]:
    """The keys of at least so many records, from the group's offsets on; then it commits."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    keys: list[bytes | None] = []

    def read_on() -> bool:
        keys.extend(message.key() for message in consumer.consume(100, 0.2))
        return len(keys) >= count

    wait_until(read_on, "not all records came")
    consumer.commit(asynchronous=False)
    consumer.close()
    return keys


def committed(bootstrap_servers: str, group: str, topic: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group})
    places = consumer.committed([TopicPartition(topic, partition) for partition in range(PARTITIONS)], 30)
    consumer.close()
    return [place.offset for place in places]


def _settings(source: str, target: str, topic: str) -> Mapping[str, str]:
    every_second = ("refresh.topics", "refresh.groups", "sync.group.offsets", "emit.checkpoints", "sync.topic.configs")
    of_one_replica = ("checkpoints.topic", "heartbeats.topic", "offset-syncs.topic")
    of_workers = ("offset.storage", "status.storage", "config.storage")
    return {
        "clusters": "source, target",
        "source.bootstrap.servers": source,
        "target.bootstrap.servers": target,
        "source->target.enabled": "true",
        "source->target.topics": topic,
        "source->target.groups": topic,
        "sync.group.offsets.enabled": "true",
        # Offsets are translated for each record, not for some.
        "offset.lag.max": "0",
        "target.exactly.once.source.support": "enabled",
        "plugin.discovery": "service_load",
        **{f"{name}.interval.seconds": "1" for name in every_second},
        **{f"{name}.replication.factor": "1" for name in (*of_one_replica, *of_workers)},
        "replication.factor": "1",
    }
