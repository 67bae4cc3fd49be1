"""Spark's own Kafka connector reads topics of ours, and what our data source reads is equal to it cell by cell."""

import json
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from tests.interop.cells import FIRST_MS, RECORDS
from tests.interop.clients.confluent import Confluent
from tests.interop.exchange import COMPRESSIONS, Compression, Record
from tests.interop.spark_connectors import CONNECTORS, Connectors
from tests.support.broker.processes import BrokerProcess

pytestmark = pytest.mark.interop

PARTITIONS = 3
KEPT = {"retention.ms": "-1"}
ISOLATION_LEVELS = ("read_committed", "read_uncommitted")


@pytest.fixture(scope="session")
def plain_topic(confluent: Confluent, new_topic: Callable[[str], str]) -> str:
    """Thirty records in each partition, a second apart, and nothing in the last."""
    topic = new_topic("plain")
    confluent.create_topic(topic, PARTITIONS + 1, KEPT)
    for partition in range(PARTITIONS):
        records = [
            Record(b"%d" % number, b"value", timestamp_ms=FIRST_MS + 1000 * number + partition) for number in range(30)
        ]
        confluent.produce(topic, records, partition=partition)
    return topic


def read_alike(connectors: Connectors, options: dict[str, str]) -> int:
    """Gives the number of rows, all of which are equal."""
    theirs, ours = (connectors.read(connector, options) for connector in CONNECTORS)
    assert ours == theirs
    return len(ours)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_every_cell_is_equal_with_every_compression(
    connectors: Connectors, confluent: Confluent, topic: str, compression: Compression
) -> None:
    confluent.create_topic(topic, PARTITIONS, KEPT)
    for partition in range(PARTITIONS):
        confluent.produce(topic, RECORDS, partition=partition, compression=compression)

    assert read_alike(connectors, {"subscribe": topic}) == PARTITIONS * len(RECORDS)


def test_times_that_the_broker_gave_are_equal(connectors: Connectors, confluent: Confluent, topic: str) -> None:
    confluent.create_topic(topic, 1, {**KEPT, "message.timestamp.type": "LogAppendTime"})
    confluent.produce(topic, RECORDS)

    assert read_alike(connectors, {"subscribe": topic}) == len(RECORDS)
    assert {row.timestampType for row in connectors.read("headwater", {"subscribe": topic})} == {1}


def test_a_topic_whose_kind_of_time_changed_is_equal(connectors: Connectors, confluent: Confluent, topic: str) -> None:
    confluent.create_topic(topic, 1, KEPT)
    confluent.produce(topic, RECORDS)
    confluent.alter_configs(topic, {"message.timestamp.type": "LogAppendTime"})
    confluent.produce(topic, RECORDS)

    assert read_alike(connectors, {"subscribe": topic}) == 2 * len(RECORDS)
    assert {row.timestampType for row in connectors.read("headwater", {"subscribe": topic})} == {0, 1}


@pytest.mark.parametrize("isolation_level", ISOLATION_LEVELS)
def test_transactions_are_seen_alike(
    connectors: Connectors, confluent: Confluent, broker: BrokerProcess, topic: str, isolation_level: str
) -> None:
    """Committed, aborted and open ones, with plain records before, between and behind them."""
    confluent.create_topic(topic, 1, KEPT)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic, "linger.ms": 0})
    producer.init_transactions(60)
    for number in range(4):
        confluent.produce(topic, RECORDS)
        producer.begin_transaction()
        for count in range(10):
            producer.produce(topic, b"value", b"%d" % count, partition=0)
        assert producer.flush(60) == 0
        if number < 3:
            _ = producer.commit_transaction(60) if number % 2 else producer.abort_transaction(60)
    confluent.produce(topic, RECORDS)

    found = read_alike(connectors, {"subscribe": topic, "kafka.isolation.level": isolation_level})

    producer.abort_transaction(60)
    # What lies behind the open transaction is not there yet for those who want only what is committed.
    assert found == (4 * len(RECORDS) + 10 if isolation_level == "read_committed" else 5 * len(RECORDS) + 40)


def test_records_after_deleted_ones_are_equal(connectors: Connectors, confluent: Confluent, topic: str) -> None:
    confluent.create_topic(topic, 2, KEPT)
    for partition in range(2):
        confluent.produce(topic, RECORDS, partition=partition)
    confluent.delete_records(topic, 5)

    assert read_alike(connectors, {"subscribe": topic}) == 2 * len(RECORDS) - 5


def _by_partition(topic: str, *numbers: int) -> str:
    return json.dumps({topic: {str(partition): number for partition, number in enumerate(numbers)}})


CHOICES: dict[str, tuple[Callable[[str], dict[str, str]], int]] = {
    "starting offsets": (lambda topic: {"startingOffsets": _by_partition(topic, 5, -2, 28, -2)}, 25 + 30 + 2),
    "ending offsets": (lambda topic: {"endingOffsets": _by_partition(topic, 5, -1, 0, -1)}, 5 + 30),
    "both": (
        lambda topic: {
            "startingOffsets": _by_partition(topic, 3, 7, 30, 0),
            "endingOffsets": _by_partition(topic, 9, 8, -1, 0),
        },
        6 + 1,
    ),
    "starting time": (
        lambda _: {"startingTimestamp": str(FIRST_MS + 20_000), "startingOffsetsByTimestampStrategy": "latest"},
        3 * 10,
    ),
    "ending time": (lambda _: {"endingTimestamp": str(FIRST_MS + 20_001)}, 21 + 20 + 20),
    "times by partition": (
        lambda topic: {
            "startingOffsetsByTimestamp": _by_partition(topic, *(FIRST_MS + 1000 * each for each in (5, 10, 15, 0))),
            "startingOffsetsByTimestampStrategy": "latest",
            "endingOffsetsByTimestamp": _by_partition(topic, *(FIRST_MS + 1000 * each for each in (10, 90, 16, 90))),
        },
        5 + 20 + 1,
    ),
    "more tasks than partitions": (lambda _: {"minPartitions": "8"}, 90),
    "few records to a task": (lambda _: {"maxRecordsPerPartition": "7"}, 90),
}


@pytest.mark.parametrize("choice", CHOICES)
def test_options_choose_the_same_rows(connectors: Connectors, plain_topic: str, choice: str) -> None:
    options, expected = CHOICES[choice]

    assert read_alike(connectors, {"subscribe": plain_topic, **options(plain_topic)}) == expected


def test_patterns_and_assignments_choose_the_same_partitions(connectors: Connectors, plain_topic: str) -> None:
    assert read_alike(connectors, {"subscribePattern": f"{plain_topic[:-1]}.?"}) == 90
    assert read_alike(connectors, {"assign": json.dumps({plain_topic: [0, 2]})}) == 60


def test_streams_give_the_same_rows(connectors: Connectors, confluent: Confluent, topic: str) -> None:
    confluent.create_topic(topic, PARTITIONS, KEPT)
    for partition in range(PARTITIONS):
        confluent.produce(topic, RECORDS, partition=partition)

    theirs, ours = (connectors.collect(connectors.stream(connector, topic))[0] for connector in CONNECTORS)

    assert ours == theirs
    assert len(ours) == PARTITIONS * len(RECORDS)


def test_micro_batches_end_at_the_same_offsets(connectors: Connectors, plain_topic: str) -> None:
    # Every partition gets a third of it. What cannot be shared evenly, ours gives away and theirs does not.
    limits = {"maxOffsetsPerTrigger": "24"}
    ends: list[list[str]] = []
    for connector in CONNECTORS:
        rows, query = connectors.collect(connectors.stream(connector, plain_topic, limits))
        assert len(rows) == 90
        ends.append([json.loads(each.sources[0].endOffset) for each in query.recentProgress if each.numInputRows])

    theirs, ours = ends
    assert ours == theirs
    assert len(ours) == 4
