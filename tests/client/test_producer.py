"""The producer against a real broker; another client reads its records."""

from collections.abc import Iterator
from itertools import pairwise
from uuid import uuid4

import pytest
from confluent_kafka import OFFSET_BEGINNING, Message
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import TopicPartition as ConfluentPartition
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.delivery import DeliveredBatch
from headwater.client.errors import ClientError, Refused, UnknownTopic
from headwater.client.offsets import LATEST, list_offsets
from headwater.client.producer import Producer
from headwater.errors import ConfigError
from headwater.ids import TopicName, TopicPartition
from headwater.protocol.batches.compression import Codec
from headwater.protocol.partitioner import partition_for_key
from headwater.testing import Broker

PRODUCE_KEY = 0
# librdkafka takes names as C strings, which end at a zero.
HEADER_NAMES = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=10)


def new_topic(cluster: Cluster, partition_count: int = 1, **settings: str) -> str:
    name = f"t-{uuid4().hex}"
    values = {key.replace("_", "."): value for key, value in settings.items()}
    Admin(cluster).create_topic(name, partition_count=partition_count, settings=values)
    return name


class Reader:
    """Another client, which reads all records of a topic."""

    def __init__(self, broker: Broker) -> None:
        self._consumer = ConfluentConsumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": "unused",
                "enable.auto.commit": False,
                "check.crcs": True,
                "fetch.wait.max.ms": 10,
            }
        )

    def read(self, topic: str, partition_count: int = 1) -> list[Message]:
        partitions = [ConfluentPartition(topic, index, OFFSET_BEGINNING) for index in range(partition_count)]
        ends = [self._consumer.get_watermark_offsets(partition, timeout=10)[1] for partition in partitions]
        self._consumer.assign(partitions)
        messages: list[Message] = []
        while len(messages) < sum(ends):
            message = self._consumer.poll(10)
            assert message is not None
            assert message.error() is None
            messages.append(message)
        self._consumer.unassign()
        return messages

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture(scope="module")
def reader(broker: Broker) -> Iterator[Reader]:
    reader = Reader(broker)
    yield reader
    reader.close()


def partition_zero(topic: str) -> TopicPartition:
    return TopicPartition(TopicName(topic), 0)


# -- what is written


@pytest.mark.parametrize("codec", list(Codec))
def test_another_client_reads_exactly_the_written_records(reader: Reader, cluster: Cluster, codec: Codec) -> None:
    topic = new_topic(cluster)
    values = [None, b"", b"x", b"\xff\x00", "ütf-8".encode(), b"long" * 5000]
    keys = [None, b"", b"key"]
    headers = [(), (("a", b"1"), ("a", None), ("ü", b""))]
    expected = [(key, value, each) for key in keys for value in values for each in headers]
    with Producer(cluster, codec=codec, batch_records_max=7) as producer:
        for number, (key, value, each) in enumerate(expected):
            producer.send(topic, value, key=key, headers=each, timestamp_ms=1_700_000_000_000 + number)

    messages = reader.read(topic)

    assert [(one.key(), one.value(), tuple(one.headers() or ())) for one in messages] == expected
    assert [one.offset() for one in messages] == list(range(len(expected)))
    assert [one.timestamp()[1] - 1_700_000_000_000 for one in messages] == list(range(len(expected)))


@settings(max_examples=15)
@given(
    st.lists(
        st.tuples(
            st.none() | st.binary(max_size=40),
            st.none() | st.binary(max_size=200),
            st.lists(st.tuples(HEADER_NAMES, st.none() | st.binary(max_size=20)), max_size=3),
        ),
        min_size=1,
        max_size=20,
    ),
    st.sampled_from(Codec),
)
def test_any_records_are_read_back_by_another_client(
    broker: Broker,
    reader: Reader,
    records: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]],
    codec: Codec,
) -> None:
    with Cluster(broker.bootstrap_servers) as cluster:
        topic = new_topic(cluster)
        with Producer(cluster, codec=codec) as producer:
            for key, value, headers in records:
                producer.send(topic, value, key=key, headers=tuple(headers))
    messages = reader.read(topic)
    assert [(one.key(), one.value(), list(one.headers() or [])) for one in messages] == records


def test_a_record_of_ten_mebibytes_arrives(reader: Reader, cluster: Cluster) -> None:
    topic = new_topic(cluster, max_message_bytes=str(20 * 1024 * 1024))
    value = bytes(range(256)) * (10 * 1024 * 4)
    with Producer(cluster, codec=Codec.LZ4) as producer:
        producer.send(topic, value)
    (message,) = reader.read(topic)
    assert message.value() == value


def test_keys_go_to_the_same_partitions_as_with_the_java_client(reader: Reader, cluster: Cluster) -> None:
    topic = new_topic(cluster, 5)
    keys = [b"key-%d" % number for number in range(50)]
    with Producer(cluster) as producer:
        for key in keys:
            producer.send(topic, None, key=key)
    found = {one.key(): one.partition() for one in reader.read(topic, 5)}
    assert found == {key: partition_for_key(key, 5) for key in keys}


def test_keyless_records_fill_one_batch_before_they_go_to_the_next_partition(cluster: Cluster) -> None:
    topic = new_topic(cluster, 3)
    delivered: list[DeliveredBatch] = []
    with Producer(cluster, batch_records_max=10, on_delivered=delivered.append) as producer:
        for _ in range(90):
            producer.send(topic, b"v")
    assert [each.record_count for each in delivered] == [10] * 9
    assert sorted(each.partition.partition for each in delivered) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert all(one.partition != next_one.partition for one, next_one in pairwise(delivered))


def test_batches_are_bounded_by_bytes_and_all_of_them_by_the_buffer(cluster: Cluster) -> None:
    topic = new_topic(cluster, 2)
    delivered: list[DeliveredBatch] = []
    with Producer(cluster, batch_bytes_max=1000, buffer_bytes_max=10_000, on_delivered=delivered.append) as producer:
        for _ in range(10):
            producer.send(topic, b"v" * 400, partition=0)
        assert delivered or producer._buffered_bytes < 1000
        producer._batch_bytes_max = 1_000_000
        for _ in range(30):
            producer.send(topic, b"v" * 400, partition=1)
        assert producer._buffered_bytes < 10_000
    assert [each.record_count for each in delivered if each.partition.partition == 0] == [2] * 5
    assert sum(each.record_count for each in delivered) == 40
    assert producer._buffered_bytes == 0


def test_delivery_callbacks_have_the_offsets(cluster: Cluster) -> None:
    topic = new_topic(cluster)
    delivered: list[DeliveredBatch] = []
    producer = Producer(cluster, on_delivered=delivered.append)
    producer.send(topic, b"1")
    producer.send(topic, b"2")
    producer.flush()
    producer.send(topic, b"3")
    producer.close()
    assert [(each.partition, each.base_offset, each.record_count) for each in delivered] == [
        (partition_zero(topic), 0, 2),
        (partition_zero(topic), 2, 1),
    ]


@pytest.mark.parametrize("acks", [0, 1])
def test_acks_0_and_1_write_the_same_records(reader: Reader, cluster: Cluster, acks: int) -> None:
    topic = new_topic(cluster)
    delivered: list[DeliveredBatch] = []
    with Producer(cluster, acks=acks, batch_records_max=3, on_delivered=delivered.append) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number)
    # When a later request on the same connection is answered, the broker has handled those without a response.
    while list_offsets(cluster, [partition_zero(topic)], LATEST)[partition_zero(topic)] < 10:
        pass
    messages = reader.read(topic)
    assert [one.value() for one in messages] == [b"%d" % number for number in range(10)]
    assert sum(each.record_count for each in delivered) == 10
    assert all((each.base_offset == -1) == (acks == 0) for each in delivered)


# -- what is refused


def test_settings_that_contradict_each_other_are_refused(cluster: Cluster) -> None:
    with pytest.raises(ConfigError, match="acks=2"):
        Producer(cluster, acks=2)
    with pytest.raises(ConfigError, match="idempotent"):
        Producer(cluster, acks=1, idempotent=True)


def test_a_missing_partition_is_refused_before_anything_is_sent(cluster: Cluster) -> None:
    topic = new_topic(cluster, 2)
    with Producer(cluster) as producer, pytest.raises(UnknownTopic, match="partitions 0 to 1, not 2"):
        producer.send(topic, b"v", partition=2)
    assert list_offsets(cluster, [partition_zero(topic)], LATEST) == {partition_zero(topic): 0}


def test_a_topic_is_created_on_first_use_only_if_asked_to(broker: Broker, cluster: Cluster) -> None:
    topic = f"t-{uuid4().hex}"
    with Producer(cluster, create_topics=False) as producer, pytest.raises(UnknownTopic):
        producer.send(topic, b"v")
    with Cluster(broker.bootstrap_servers) as waiting, Producer(waiting) as producer:
        producer.send(topic, b"v")
    assert len(cluster.topic(topic).partitions) == 3


def test_a_batch_larger_than_the_topic_allows_is_split_until_it_fits(reader: Reader, cluster: Cluster) -> None:
    topic = new_topic(cluster, max_message_bytes="2000")
    delivered: list[DeliveredBatch] = []
    with Producer(cluster, batch_bytes_max=20_000, on_delivered=delivered.append) as producer:
        for number in range(100):
            producer.send(topic, b"%03d" % number * 100)
    assert [one.value() for one in reader.read(topic)] == [b"%03d" % n * 100 for n in range(100)]
    assert sum(each.record_count for each in delivered) == 100


def test_a_record_larger_than_the_topic_allows_is_refused_and_the_producer_goes_on(
    reader: Reader, cluster: Cluster
) -> None:
    topic = new_topic(cluster, max_message_bytes="2000")
    producer = Producer(cluster)
    producer.send(topic, b"before")
    producer.flush()
    producer.send(topic, b"x" * 5000)
    with pytest.raises(Refused, match="MESSAGE_TOO_LARGE"):
        producer.flush()
    producer.send(topic, b"after")
    producer.close()
    assert [one.value() for one in reader.read(topic)] == [b"before", b"after"]


def test_a_compacted_topic_refuses_a_record_without_key_and_takes_the_others(reader: Reader, cluster: Cluster) -> None:
    compacted = new_topic(cluster, cleanup_policy="compact")
    other = new_topic(cluster)
    producer = Producer(cluster)
    producer.send(compacted, b"no key")
    producer.send(other, b"v")
    with pytest.raises(Refused, match=f"1 records for {compacted}-0: .*INVALID_RECORD"):
        producer.flush()
    assert [one.value() for one in reader.read(other)] == [b"v"]


def test_after_an_error_in_the_block_nothing_more_is_sent(cluster: Cluster) -> None:
    topic = new_topic(cluster)

    def fail() -> None:
        with Producer(cluster) as producer:
            producer.send(topic, b"v")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert list_offsets(cluster, [partition_zero(topic)], LATEST) == {partition_zero(topic): 0}


@pytest.mark.parametrize("timestamp_ms", [-1, 2**62])
def test_an_invalid_timestamp_is_refused_and_the_records_beside_it_are_written(
    cluster: Cluster, reader: Reader, timestamp_ms: int
) -> None:
    topic = new_topic(cluster)
    with Producer(cluster) as producer:
        producer.send(topic, b"v")
        with pytest.raises(ClientError, match=f"{timestamp_ms} is no timestamp"):
            producer.send(topic, b"v", timestamp_ms=timestamp_ms)
    assert len(reader.read(topic)) == 1


def test_a_header_name_that_is_not_text_is_refused_by_send(cluster: Cluster) -> None:
    topic = new_topic(cluster)
    with Producer(cluster) as producer, pytest.raises(UnicodeEncodeError):
        producer.send(topic, b"v", headers=(("\udcff", b""),))


def test_partitions_added_to_the_topic_are_used(cluster: Cluster) -> None:
    topic = new_topic(cluster, 1)
    delivered: list[DeliveredBatch] = []
    with Producer(cluster, batch_records_max=1, on_delivered=delivered.append) as producer:
        producer.send(topic, b"v")
        producer.flush()
        Admin(cluster).add_partitions(topic, 3)
        for _ in range(6):
            producer.send(topic, b"v")
    assert {each.partition.partition for each in delivered} == {0, 1, 2}
