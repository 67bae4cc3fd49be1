"""Kafka Connect in distributed mode: a source that is exactly once although its worker is killed, and a sink."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.interop import toolchain
from tests.interop.clients.confluent import Confluent
from tests.interop.connect_worker import ConnectWorker
from tests.support.broker.processes import BrokerProcess, wait_until

pytestmark = pytest.mark.interop

# Each batch is a transaction. The source reads 1024 characters at a time, and keeps whole lines of them that do not fit
# into the batch until the file grows: here a batch is as many lines as it reads.
BATCH = 16
LINE_LENGTH = 1024 // BATCH - 1
LINES = 10_000
MORE_LINES = 1000
GROUP = "connect-workers"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", {"group.initial.rebalance.delay.ms": "0"}) as broker:
        yield broker


@pytest.fixture
def worker(broker: BrokerProcess, tmp_path: Path) -> Iterator[ConnectWorker]:
    with ConnectWorker(toolchain.connect_worker(), tmp_path, broker.bootstrap_servers, GROUP) as worker:
        yield worker


def test_a_source_is_exactly_once_although_its_worker_is_killed(
    worker: ConnectWorker,
    broker: BrokerProcess,
    tmp_path: Path,
) -> None:
    topic, source, copy = "lines", tmp_path / "source.txt", tmp_path / "copy.txt"
    confluent = Confluent(broker.bootstrap_servers)
    lines = [f"{number}".zfill(LINE_LENGTH) for number in range(LINES + MORE_LINES)]
    confluent.create_topic(topic)
    source.write_text(_text(lines[:LINES]))
    worker.configure("source", _source(source, topic))
    wait_until(lambda: confluent.offset(topic, "latest").offset > LINES // 10, "the source has not begun")

    worker.kill()
    with source.open("a") as file:
        file.write(_text(lines[LINES:]))
    worker.start()
    worker.wait_until_running("source")

    assert _committed(broker, topic, len(lines)) == lines
    worker.configure("sink", _sink(copy, topic))
    wait_until(lambda: copy.exists() and copy.read_text() == _text(lines), "the sink has not copied all lines")
    (offset,) = worker.ask("/connectors/source/offsets")["offsets"]
    assert offset["offset"] == {"position": source.stat().st_size}


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _source(file: Path, topic: str) -> dict[str, str]:
    return {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "file": str(file),
        "topic": topic,
        "batch.size": str(BATCH),
        "tasks.max": "1",
        "exactly.once.support": "required",
        # A worker starts when the last transaction of a killed one has ended.
        "producer.override.transaction.timeout.ms": "5000",
        "transaction.boundary": "poll",
    }


def _sink(file: Path, topic: str) -> dict[str, str]:
    return {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "file": str(file),
        "topics": topic,
        "tasks.max": "1",
        "consumer.override.isolation.level": "read_committed",
    }


def _committed(broker: BrokerProcess, topic: str, count: int) -> list[str]:
    """The values of at least `count` committed records, and of all others that are there then."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": topic, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[str] = []

    def read_on() -> bool:
        messages = consumer.consume(1000, 0.2)
        values.extend((message.value() or b"").decode() for message in messages)
        return len(values) >= count and not messages

    wait_until(read_on, "not all lines are in the topic")
    consumer.close()
    return values
