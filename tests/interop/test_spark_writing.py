"""What Spark's own Kafka connector writes ours reads, and the other way round. A key has the same partition in both."""

from typing import Any

import pytest
from pyspark.sql import Row

from tests.interop.cells import CELLS, RECORDS
from tests.interop.clients.confluent import Confluent
from tests.interop.exchange import COMPRESSIONS, Compression, Record
from tests.interop.spark_connectors import CONNECTORS, Connector, Connectors

pytestmark = pytest.mark.interop

PARTITIONS = 5
KEPT = {"retention.ms": "-1"}
# Of every length up to a few words, because the hash treats the last bytes of a key apart.
KEYS = tuple(b"%d" % number * (1 + number % 5) for number in range(500))
READERS_AND_WRITERS = tuple((reader, writer) for reader in CONNECTORS for writer in CONNECTORS)


def _given(record: Record) -> tuple[Any, ...]:
    return record.key, record.value, 0, list(record.headers) or None


def _found(row: Row) -> Record:
    headers = tuple((name, _bytes(value)) for name, value in row.headers or ())
    return Record(_bytes(row.key), _bytes(row.value), headers)


def _bytes(cell: bytearray | None) -> bytes | None:
    return None if cell is None else bytes(cell)


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("writer", CONNECTORS)
def test_rows_are_read_as_they_were_written(
    connectors: Connectors, confluent: Confluent, topic: str, writer: Connector, compression: Compression
) -> None:
    confluent.create_topic(topic, 1, KEPT)

    connectors.write(writer, topic, [_given(cell) for cell in CELLS], {"kafka.compression.type": compression})

    theirs, ours = (connectors.read(reader, {"subscribe": topic}) for reader in CONNECTORS)
    assert ours == theirs
    assert tuple(_found(row) for row in ours) == CELLS


def test_a_key_goes_to_the_same_partition(connectors: Connectors, confluent: Confluent, topic: str) -> None:
    places: list[dict[bytes, set[int]]] = []
    for writer in CONNECTORS:
        target = f"{topic}-{writer}"
        confluent.create_topic(target, PARTITIONS, KEPT)
        connectors.write(writer, target, [(key, b"value") for key in KEYS], schema="key binary, value binary")
        found: dict[bytes, set[int]] = {}
        for row in connectors.read("headwater", {"subscribe": target}):
            found.setdefault(bytes(row.key), set()).add(row.partition)
        places.append(found)

    theirs, ours = places
    assert ours == theirs
    assert set(ours) == set(KEYS)
    assert set().union(*ours.values()) == set(range(PARTITIONS))


def test_rows_choose_their_topic_and_partition_alike(connectors: Connectors, confluent: Confluent, topic: str) -> None:
    for target in ("one", "two"):
        confluent.create_topic(f"{topic}-{target}", PARTITIONS, KEPT)
    # The second column is null in some rows: their key decides.
    rows = [(f"{topic}-{('one', 'two')[n % 2]}", None if n % 3 else n % PARTITIONS, b"%d" % n) for n in range(60)]
    for writer in CONNECTORS:
        frame = connectors.spark.createDataFrame(rows, "topic string, partition int, key binary")
        connectors.save(writer, frame.selectExpr("*", f"cast('{writer}' as binary) as value"))

    found: dict[str, set[tuple[str, int, bytes]]] = {"kafka": set(), "headwater": set()}
    for row in connectors.read("headwater", {"subscribe": f"{topic}-one,{topic}-two"}):
        found[row.value.decode()].add((row.topic, row.partition, bytes(row.key)))
    assert found["headwater"] == found["kafka"]
    assert len(found["headwater"]) == len(rows)


@pytest.mark.parametrize(("reader", "writer"), READERS_AND_WRITERS)
def test_a_stream_copies_a_topic_and_goes_on_from_its_checkpoint(
    connectors: Connectors, confluent: Confluent, topic: str, reader: Connector, writer: Connector
) -> None:
    target, checkpoint = f"{topic}-copy", connectors.checkpoint()
    for each in (topic, target):
        confluent.create_topic(each, 2, KEPT)
    for _ in range(2):
        for partition in range(2):
            confluent.produce(topic, RECORDS, partition=partition)
        connectors.copy(reader, writer, topic, target, checkpoint)

    source = _by_partition(connectors.read("headwater", {"subscribe": topic}))
    assert [len(records) for records in source.values()] == [2 * len(RECORDS)] * 2
    # Both keep the order of a partition within a batch.
    for connector in CONNECTORS:
        options = {"subscribe": target, "kafka.isolation.level": "read_committed"}
        assert _by_partition(connectors.read(connector, options)) == source


def _by_partition(rows: list[Row]) -> dict[int, list[Record]]:
    found: dict[int, list[Record]] = {}
    for row in rows:
        found.setdefault(row.partition, []).append(_found(row))
    return found
