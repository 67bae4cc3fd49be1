"""The consumer against a real broker, reading records that another client wrote."""

from uuid import uuid4

import pytest
from confluent_kafka import Producer as ConfluentProducer

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.consumer import Consumer
from headwater.client.errors import ClientError, OffsetOutOfRange, UnknownTopic
from headwater.client.offsets import EARLIEST, LATEST, list_offsets
from headwater.client.producer import Producer
from headwater.ids import TopicName, TopicPartition
from headwater.protocol.batches.compression import Codec
from headwater.testing import Broker
from tests.client.consumed_records import read


def new_topic(cluster: Cluster, partition_count: int = 1) -> list[TopicPartition]:
    name = TopicName(f"t-{uuid4().hex}")
    Admin(cluster).create_topic(name, partition_count=partition_count)
    return [TopicPartition(name, index) for index in range(partition_count)]


def write(
    cluster: Cluster, partition: TopicPartition, count: int, *, codec: Codec = Codec.NONE, each: int = 10
) -> None:
    with Producer(cluster, batch_records_max=each, codec=codec) as producer:
        for number in range(count):
            producer.send(
                partition.topic, b"%d" % number, partition=partition.partition, timestamp_ms=1_700_000_000_000 + number
            )


def test_records_of_large_batches_stay_intact_while_others_are_fetched(cluster: Cluster) -> None:
    (partition,) = new_topic(cluster)
    values = [bytes([number]) * 500_000 for number in range(12)]
    with Producer(cluster, batch_records_max=1) as producer:
        for value in values:
            producer.send(partition.topic, value, partition=0)
    consumer = Consumer(cluster, {partition: 0}, partition_bytes_max=600_000)
    kept = []
    while len(kept) < len(values):
        kept += consumer.fetch_batches()

    assert [record.value for fetched in kept for record in consumer.read(fetched)] == values


@pytest.mark.parametrize("codec", list(Codec))
def test_records_of_another_client_are_read_exactly(broker: Broker, cluster: Cluster, codec: Codec) -> None:
    (partition,) = new_topic(cluster)
    values = [None, b"", b"x", b"\xff\x00", b"long" * 5000]
    keys = [None, b"", b"key"]
    headers: list[list[tuple[str, str | bytes | None]]] = [[], [("a", b"1"), ("a", None), ("ü", b"")]]
    expected = [(key, value, each) for key in keys for value in values for each in headers]
    producer = ConfluentProducer(
        {"bootstrap.servers": broker.bootstrap_servers, "compression.type": codec.name.lower(), "linger.ms": 5}
    )
    for number, (key, value, each) in enumerate(expected):
        producer.produce(partition.topic, value, key, partition=0, headers=each, timestamp=1_700_000_000_000 + number)
    assert producer.flush(10) == 0

    records = read(Consumer(cluster, {partition: 0}), len(expected))

    assert [(one.key, one.value, list(one.headers)) for one in records] == expected
    assert [one.offset for one in records] == list(range(len(expected)))
    assert [one.timestamp_ms - 1_700_000_000_000 for one in records] == list(range(len(expected)))
    assert {(one.topic, one.partition) for one in records} == {partition}


def test_reading_begins_at_the_offset_even_inside_a_batch(cluster: Cluster) -> None:
    (partition,) = new_topic(cluster)
    write(cluster, partition, 30, codec=Codec.ZSTD)
    consumer = Consumer(cluster, {partition: 15})

    batches = consumer.fetch_batches()

    assert [(one.header.base_offset, one.first_offset) for one in batches] == [(10, 15), (20, 15)]
    assert [record.offset for one in batches for record in consumer.read(one)] == list(range(15, 30))
    assert consumer.positions == {partition: 30}
    assert consumer.end_offsets == {partition: 30}


def test_all_partitions_are_read_and_each_from_its_own_offset(cluster: Cluster) -> None:
    partitions = new_topic(cluster, 3)
    for partition in partitions:
        write(cluster, partition, 20)
    consumer = Consumer(cluster, {partition: 5 * partition.partition for partition in partitions}, bytes_max=200)

    records = read(consumer, 20 + 15 + 10)

    for partition in partitions:
        offsets = [one.offset for one in records if one.partition == partition.partition]
        assert offsets == list(range(5 * partition.partition, 20))


def test_a_poll_without_new_records_is_empty_and_later_records_are_found(cluster: Cluster) -> None:
    (partition,) = new_topic(cluster)
    consumer = Consumer(cluster, {partition: 0}, wait_ms_max=1)
    assert consumer.poll() == []
    write(cluster, partition, 1)
    assert [one.value for one in consumer.poll()] == [b"0"]


def test_positions_can_be_changed_between_calls(cluster: Cluster) -> None:
    partitions = new_topic(cluster, 2)
    write(cluster, partitions[0], 10)
    consumer = Consumer(cluster, dict.fromkeys(partitions, 0))
    read(consumer, 10)
    consumer.positions = {partitions[0]: 8}
    assert [one.offset for one in read(consumer, 2)] == [8, 9]
    consumer.positions.clear()
    assert consumer.poll() == []


def test_offsets_are_found_by_time(cluster: Cluster) -> None:
    (partition,) = new_topic(cluster)
    write(cluster, partition, 25)

    def offset(when: int) -> int:
        return list_offsets(cluster, [partition], when)[partition]

    assert (offset(EARLIEST), offset(LATEST)) == (0, 25)
    assert offset(1_700_000_000_013) == 13
    assert offset(0) == 0
    assert offset(1_800_000_000_000) == 25, "where all is older, it is the end"


def test_an_offset_out_of_range_is_an_error_with_the_available_range(cluster: Cluster) -> None:
    (partition,) = new_topic(cluster)
    write(cluster, partition, 20)
    Admin(cluster).delete_records({partition: 12})
    for offset in (3, 21):
        with pytest.raises(OffsetOutOfRange, match=rf"{partition} has offsets 12 to 20, not {offset}") as raised:
            Consumer(cluster, {partition: offset}).poll()
        error = raised.value
        assert (error.partition, error.offset, error.earliest, error.latest) == (partition, offset, 12, 20)


def test_a_missing_topic_is_an_error(cluster: Cluster) -> None:
    with pytest.raises(UnknownTopic):
        Consumer(cluster, {TopicPartition(TopicName("nosuch"), 0): 0}).poll()


def test_a_batch_larger_than_the_fetch_size_is_read(cluster: Cluster) -> None:
    (partition,) = new_topic(cluster)
    with Producer(cluster) as producer:
        producer.send(partition.topic, b"x" * 50_000)
    (record,) = read(Consumer(cluster, {partition: 0}, partition_bytes_max=100, bytes_max=100), 1)
    assert record.value == b"x" * 50_000


def test_a_batch_that_decompresses_beyond_the_limit_is_refused(cluster: Cluster) -> None:
    (partition,) = new_topic(cluster)
    with Producer(cluster, codec=Codec.ZSTD) as producer:
        producer.send(partition.topic, b"x" * 50_000)
    consumer = Consumer(cluster, {partition: 0}, decompressed_bytes_max=10_000)
    with pytest.raises(ClientError, match=rf"{partition}, batch at offset 0: .* more than the limit of 10000"):
        consumer.poll()
