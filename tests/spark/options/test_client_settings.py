"""Settings of Kafka's clients: refused as by Spark's own source and sink, or warned about if they have no effect."""

import logging

import pytest

from headwater.errors import ConfigError
from headwater.spark.options.client_settings import warn_of_reads, warn_of_writes
from headwater.spark.options.read_options import read_options
from headwater.spark.options.write_options import write_options

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}


@pytest.mark.parametrize(
    "name",
    [
        "kafka.auto.offset.reset",
        "kafka.enable.auto.commit",
        "kafka.interceptor.classes",
        "kafka.key.deserializer",
        "Kafka.Value.Deserializer",
    ],
)
@pytest.mark.parametrize("is_streaming", [False, True])
def test_reads_refuse_what_sparks_kafka_source_refuses(name: str, is_streaming: bool) -> None:
    with pytest.raises(ConfigError, match=f"{name.lower()}' cannot be set: "):
        read_options({**SERVERS, "subscribe": "a", name: "x"}, is_streaming=is_streaming)


@pytest.mark.parametrize("name", ["kafka.key.serializer", "kafka.value.serializer"])
def test_writes_refuse_what_sparks_kafka_sink_refuses(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}' cannot be set: keys and values are"):
        write_options({**SERVERS, "topic": "a", name: "x"}, is_streaming=True)


def test_what_has_no_effect_is_warned_about_by_name(caplog: pytest.LogCaptureFixture) -> None:
    given = {
        **SERVERS,
        "kafka.fetch.max.bytes": "1",
        "kafka.client.id": "me",
        "kafka.group.id": "us",
        "kafka.isolation.level": "read_committed",
        "kafka.security.protocol": "PLAINTEXT",
        "kafkaConsumer.pollTimeoutMs": "5",
        "subscribe": "a",
    }
    with caplog.at_level(logging.WARNING):
        warn_of_reads(given)
        warn_of_writes({**SERVERS, "kafka.partitioner.class": "Mine", "kafka.acks": "all", "topic": "a"})

    assert [record.getMessage() for record in caplog.records] == [
        "option 'kafka.fetch.max.bytes' has no effect in format('headwater')",
        "option 'kafkaConsumer.pollTimeoutMs' has no effect in format('headwater')",
        (
            "option 'kafka.partitioner.class' has no effect in format('headwater'): a row goes where Kafka's default "
            "partitioner puts its key, or where its column 'partition' says"
        ),
    ]
