"""Our commands and client against Apache Kafka's own server, over every kind of listener that it has."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer as ConfluentProducer

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.consumer import Consumer
from headwater.client.errors import OffsetOutOfRange
from headwater.client.groups.admin import GroupAdmin
from headwater.client.groups.group_consumer import GroupConsumer
from headwater.client.offsets import EARLIEST, list_offsets, offsets_since
from headwater.client.producer import Producer
from headwater.client.security.security import read_security
from headwater.client.transactions.staging import supports_publish
from headwater.ids import TopicName, TopicPartition
from headwater.protocol.batches.compression import Codec
from tests.interop.kafka_server import MECHANISMS, PASSWORD, PROTOCOLS, KafkaServer
from tests.support.broker.processes import wait_until
from tests.support.cli.commands import Commands, Outcome

pytestmark = pytest.mark.interop

FIRST_MS = 1_700_000_000_000
WAYS = [
    (protocol, mechanism)
    for protocol in PROTOCOLS
    for mechanism in (MECHANISMS if protocol.startswith("SASL") else ("",))
]
each_way = pytest.mark.parametrize(
    "way",
    WAYS,
    ids=[f"{protocol}-{mechanism}" if mechanism else protocol for protocol, mechanism in WAYS],
    indirect=True,
)
Way = Callable[..., Outcome]


class Access(NamedTuple):
    """One listener, and the settings with which a client gets in."""

    bootstrap: str
    settings: dict[str, str]

    def cluster(self) -> Cluster:
        return Cluster(self.bootstrap, security=read_security(self.settings))


@pytest.fixture
def access(request: pytest.FixtureRequest, apache_kafka: KafkaServer) -> Access:
    protocol, mechanism = getattr(request, "param", ("PLAINTEXT", ""))
    return Access(apache_kafka.bootstrap_servers(protocol), apache_kafka.settings(protocol, mechanism))


@pytest.fixture
def way(request: pytest.FixtureRequest, apache_kafka: KafkaServer, tmp_path: Path) -> Way:
    """Runs a command over the listener that the test's parameter names."""
    protocol, mechanism = getattr(request, "param", ("PLAINTEXT", ""))
    return commands_with(apache_kafka, protocol, apache_kafka.settings(protocol, mechanism), tmp_path)


def commands_with(server: KafkaServer, protocol: str, settings: dict[str, str], directory: Path) -> Way:
    file = directory / "client.properties"
    lines = (f"{name}={value}".replace("\n", "\\n") for name, value in settings.items())
    file.write_text("\n".join(lines))
    commands = Commands(server.bootstrap_servers(protocol))

    def run(*arguments: str, typed: bytes = b"", succeeds: bool = True) -> Outcome:
        outcome = commands(*arguments, "--client-config", str(file), typed=typed)
        assert (outcome.code == 0) is succeeds, outcome.error
        return outcome

    return run


@each_way
def test_topics_are_administered(way: Way, topic: str) -> None:
    def listed() -> list[str]:
        return [row["topic"] for row in way("topic", "list", "--format", "json").rows]

    def partitions() -> list[int]:
        (described,) = way("topic", "describe", topic, "--format", "json").rows
        return [partition["partition"] for partition in described["partitions"]]

    # Kafka's controller answers before its broker shows the change.
    way("topic", "create", topic, "--partitions", "2", "--set", "retention.ms=3600000")
    wait_until(lambda: topic in listed(), "the new topic is not listed")
    assert "retention.ms" in way("topic", "alter", topic, "--set", "retention.ms=7200000").output.decode()
    way("topic", "add-partitions", topic, "--total", "3")
    wait_until(lambda: partitions() == [0, 1, 2], "the new partition is not shown")
    way("topic", "delete", topic, "--yes")
    wait_until(lambda: topic not in listed(), "the topic that was deleted is still listed")
    assert "does not exist" in way("topic", "describe", topic, succeeds=False).error


@each_way
def test_records_are_produced_and_consumed(way: Way, topic: str) -> None:
    way("topic", "create", topic, "--partitions", "2")
    typed = b"".join(b"key-%d:value %d\n" % (number, number) for number in range(100))

    way("produce", topic, "--key-separator", ":", typed=typed)
    consumed = way("consume", topic, "--from", "beginning", "--format", "json").rows

    assert sorted((row["key"], row["value"]) for row in consumed) == sorted(
        (f"key-{number}", f"value {number}") for number in range(100)
    )


@each_way
def test_groups_consume_and_are_described_reset_and_deleted(way: Way, topic: str) -> None:
    group = f"{topic}.group"
    way("topic", "create", topic, "--partitions", "1")
    way("produce", topic, typed=b"a\nb\nc\n")

    assert way("consume", topic, "--group", group, "--from", "beginning", "--max", "2").lines == ["a", "b"]
    assert group in [row["group"] for row in way("group", "list", "--format", "json").rows]
    assert offsets(way, group) == [(2, 3, 1)]
    way("group", "reset", group, "--topic", topic, "--to-earliest", "--yes")
    assert offsets(way, group) == [(0, 3, 3)]
    way("group", "delete", group, "--yes")
    assert group not in [row["group"] for row in way("group", "list", "--format", "json").rows]


def offsets(way: Way, group: str) -> list[tuple[int, int, int]]:
    (described,) = way("group", "describe", group, "--format", "json").rows
    return [(each["committed"], each["end"], each["lag"]) for each in described["partitions"]]


@each_way
def test_open_transactions_are_shown(way: Way, topic: str, apache_kafka: KafkaServer) -> None:
    way("topic", "create", topic, "--partitions", "1")
    producer = ConfluentProducer(
        {"bootstrap.servers": apache_kafka.bootstrap_servers(), "transactional.id": topic, "log_level": 0}
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"hidden")
    producer.flush()
    try:
        states = {row["transactional_id"]: row["state"] for row in way("transaction", "list", "--format", "json").rows}
        assert states[topic] == "Ongoing"
        (described,) = way("transaction", "describe", topic, "--format", "json").rows
        assert described["state"] == "Ongoing"
        assert way("transaction", "find-hanging", "--topic", topic, "--format", "json").rows == []
        assert way("consume", topic, "--from", "beginning", "--committed").lines == []
    finally:
        producer.abort_transaction()


@pytest.mark.parametrize("access", WAYS, indirect=True)
def test_every_codec_survives_the_round_trip_in_large_batches(access: Access, topic: str) -> None:
    values = [b"%06d " % number * 200 for number in range(3000)]
    with access.cluster() as cluster:
        for codec in Codec:
            with Producer(cluster, codec=codec) as producer:
                for value in values:
                    producer.send(topic, value, headers=(("codec", codec.name.encode()),), partition=0)
        consumer = Consumer(cluster, {TopicPartition(TopicName(topic), 0): 0}, committed_only=True)
        read: list[bytes | None] = []
        while len(read) < len(values) * len(Codec):
            read += [record.value for record in consumer.poll()]

    assert read == values * len(Codec)


@pytest.mark.parametrize("access", [("PLAINTEXT", ""), ("SASL_SSL", "SCRAM-SHA-512")], indirect=True)
def test_offsets_are_found_by_time_and_gone_when_deleted(access: Access, topic: str) -> None:
    partition = TopicPartition(TopicName(topic), 0)
    with access.cluster() as cluster:
        with Producer(cluster) as producer:
            for number in range(100):
                producer.send(topic, b"%d" % number, timestamp_ms=FIRST_MS + number)
        assert list_offsets(cluster, [partition], FIRST_MS + 50) == {partition: 50}
        assert offsets_since(cluster, {partition: FIRST_MS + 100}) == {partition: None}
        assert Admin(cluster).delete_records({partition: 20}) == {partition: 20}
        assert list_offsets(cluster, [partition], EARLIEST) == {partition: 20}
        with pytest.raises(OffsetOutOfRange, match="has offsets 20 to 100, not 5"):
            Consumer(cluster, {partition: 5}).poll()


@pytest.mark.parametrize("access", [("PLAINTEXT", ""), ("SASL_SSL", "SCRAM-SHA-512")], indirect=True)
def test_members_of_a_group_share_the_partitions_of_a_topic(access: Access, topic: str) -> None:
    read: list[bytes | None] = []
    with access.cluster() as one, access.cluster() as other:
        Admin(one).create_topic(topic, partition_count=4)
        with Producer(one) as producer:
            for number in range(100):
                producer.send(topic, b"%d" % number, partition=number % 4)
        with (
            GroupConsumer(one, f"{topic}.group", wait_ms_max=10) as first,
            GroupConsumer(other, f"{topic}.group", wait_ms_max=10) as second,
        ):
            for member in (first, second):
                member.subscribe([topic])
            # Read is not yet processed: what the last poll gave counts only with the next.
            while [sorted(member.processed.values()) for member in (first, second)] != [[25, 25], [25, 25]]:
                read += [record.value for member in (first, second) for record in member.poll()]
        committed = GroupAdmin(one).committed(f"{topic}.group")

    assert sorted(map(int, filter(None, read))) == list(range(100)), "nothing is read twice"
    assert [found.offset for found in committed.values()] == [25] * 4


def test_kafka_offers_no_publishing_of_batches(access: Access) -> None:
    with access.cluster() as cluster:
        assert not supports_publish(cluster)


# -- authentication


@pytest.mark.parametrize(
    ("protocol", "changes", "complaint"),
    [
        *(
            ("SASL_SSL", {"sasl.mechanism": mechanism, "sasl.password": "wrong"}, "SASL_AUTHENTICATION_FAILED")
            for mechanism in MECHANISMS
        ),
        ("SASL_PLAINTEXT", {"sasl.username": "nobody"}, "SASL_AUTHENTICATION_FAILED"),
        ("SASL_SSL", {"ssl.ca.location": None}, "is not to be trusted"),
        ("SSL", {"ssl.certificate.location": None, "ssl.key.location": None}, "ssl.certificate.location"),
    ],
)
def test_a_refused_client_gets_one_clear_error(
    apache_kafka: KafkaServer, tmp_path: Path, protocol: str, changes: dict[str, str | None], complaint: str
) -> None:
    settings = {**apache_kafka.settings(protocol), **changes}
    given = {name: value for name, value in settings.items() if value is not None}

    error = commands_with(apache_kafka, protocol, given, tmp_path)("topic", "list", succeeds=False).error

    assert complaint in error
    assert error.count("\n") == 1
    assert PASSWORD not in error
    assert "wrong" not in error


@pytest.mark.parametrize(
    ("listener", "spoken", "complaint"),
    [
        ("SSL", "PLAINTEXT", "it speaks TLS there"),
        ("SASL_SSL", "SASL_PLAINTEXT", "it speaks TLS there"),
        ("PLAINTEXT", "SSL", "does it speak TLS there?"),
        ("PLAINTEXT", "SASL_PLAINTEXT", "asks nobody who they are"),
    ],
)
def test_a_wrong_security_protocol_is_one_clear_error(
    apache_kafka: KafkaServer, tmp_path: Path, listener: str, spoken: str, complaint: str
) -> None:
    spoken_there = commands_with(apache_kafka, listener, apache_kafka.settings(spoken), tmp_path)

    error = spoken_there("topic", "list", succeeds=False).error

    assert complaint in error
    assert "security.protocol" in error


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_java_style_security_settings_work_too(
    apache_kafka: KafkaServer, tmp_path: Path, topic: str, mechanism: str
) -> None:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    login = f'org.apache.kafka.common.security.{module} required username="ann" password="{PASSWORD}";'
    settings = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": login,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": apache_kafka.authority.certificate.read_text(),
    }
    assert commands_with(apache_kafka, "SASL_SSL", settings, tmp_path)("topic", "list").code == 0
