"""The consumer against a real broker, reading what another client wrote, and against scripted answers."""

from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest
from confluent_kafka import Producer as ConfluentProducer

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.consumer import ConsumedRecord, Consumer
from headwater.client.errors import ClientError, ConnectionLost, OffsetOutOfRange, Refused, UnknownTopic
from headwater.client.offsets import EARLIEST, LATEST, list_offsets
from headwater.client.producer import Producer
from headwater.clock import ManualClock
from headwater.errors import ErrorCode
from headwater.ids import TopicName, TopicPartition
from headwater.protocol import batch
from headwater.protocol.batch import Marker
from headwater.protocol.codec import Request, Response
from headwater.protocol.compression import Codec
from headwater.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from headwater.protocol.messages.metadata import MetadataRequest
from headwater.protocol.records import Record
from headwater.testing import Broker
from tests.client.scripted import ScriptedBroker, leading, patient


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


def read(consumer: Consumer, count: int) -> list[ConsumedRecord]:
    records: list[ConsumedRecord] = []
    while len(records) < count:
        records += consumer.poll()
    return records


# -- against a real broker


def test_large_batches_that_are_kept_stay_as_they_are_while_others_are_fetched(cluster: Cluster) -> None:
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
def test_what_another_client_wrote_is_read_exactly(broker: Broker, cluster: Cluster, codec: Codec) -> None:
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


def test_nothing_new_gives_nothing_and_later_records_are_found(cluster: Cluster) -> None:
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


def test_an_offset_that_retention_removed_is_told_with_what_there_is(cluster: Cluster) -> None:
    (partition,) = new_topic(cluster)
    write(cluster, partition, 20)
    Admin(cluster).delete_records({partition: 12})
    for offset in (3, 21):
        with pytest.raises(OffsetOutOfRange, match=rf"{partition} has offsets 12 to 20, not {offset}") as raised:
            Consumer(cluster, {partition: offset}).poll()
        error = raised.value
        assert (error.partition, error.offset, error.earliest, error.latest) == (partition, offset, 12, 20)


def test_a_topic_that_does_not_exist_is_an_error(cluster: Cluster) -> None:
    with pytest.raises(UnknownTopic):
        Consumer(cluster, {TopicPartition(TopicName("nosuch"), 0): 0}).poll()


def test_a_batch_larger_than_asked_for_is_read_all_the_same(cluster: Cluster) -> None:
    (partition,) = new_topic(cluster)
    with Producer(cluster) as producer:
        producer.send(partition.topic, b"x" * 50_000)
    (record,) = read(Consumer(cluster, {partition: 0}, partition_bytes_max=100, bytes_max=100), 1)
    assert record.value == b"x" * 50_000


def test_a_batch_that_decompresses_to_more_than_allowed_is_refused(cluster: Cluster) -> None:
    (partition,) = new_topic(cluster)
    with Producer(cluster, codec=Codec.ZSTD) as producer:
        producer.send(partition.topic, b"x" * 50_000)
    consumer = Consumer(cluster, {partition: 0}, decompressed_bytes_max=10_000)
    with pytest.raises(ClientError, match=rf"{partition}, batch at offset 0: .* more than the limit of 10000"):
        consumer.poll()


# -- against scripted answers

ORDERS = TopicPartition(TopicName("orders"), 0)
OTHERS = TopicPartition(TopicName("orders"), 1)


def data(
    records: bytes | bytearray = b"", code: ErrorCode = ErrorCode.NONE, index: int = 0, **options: object
) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=code,
        high_watermark=100,
        last_stable_offset=50,
        records=records,
        **options,  # pyright: ignore[reportArgumentType]
    )


def response(*partitions: PartitionData) -> FetchResponse:
    return FetchResponse(responses=[FetchableTopicResponse(topic="orders", partitions=list(partitions))])


def one_batch(offset: int, count: int = 1, producer_id: int | None = None) -> bytearray:
    """With a producer, it is part of a transaction."""
    records = [Record(offset + index, 0, None, b"%d" % (offset + index)) for index in range(count)]
    if producer_id is None:
        return batch.build(records, base_offset=offset)
    return batch.build(
        records, base_offset=offset, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True
    )


class Scripted:
    """A broker that leads both partitions and gives one answer to a fetch after another."""

    def __init__(self, broker: ScriptedBroker, cluster: Cluster) -> None:
        self.broker = broker
        self.cluster = cluster

    def answers(self, *answers: Response | bytes | None) -> None:
        coming = iter(answers)
        self.broker.scripts[FetchRequest] = lambda _: next(coming)


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    with ScriptedBroker() as broker:
        broker.scripts[MetadataRequest] = leading({"orders": 2}, {1: broker.endpoint})
        with patient(broker.bootstrap) as cluster:
            yield Scripted(broker, cluster)


def test_a_leader_that_moves_away_is_followed(scripted: Scripted) -> None:
    scripted.answers(
        response(data(code=ErrorCode.NOT_LEADER_OR_FOLLOWER)),
        response(data(code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)),
        None,
        FetchResponse(error_code=ErrorCode.KAFKA_STORAGE_ERROR, responses=[]),
        response(data(one_batch(0))),
    )
    records = read(Consumer(scripted.cluster, {ORDERS: 0}), 1)
    assert [one.value for one in records] == [b"0"]
    assert len(scripted.broker.sent(MetadataRequest)) == 5


def test_a_partition_in_trouble_does_not_keep_others_from_being_read(scripted: Scripted) -> None:
    scripted.answers(
        response(data(code=ErrorCode.NOT_LEADER_OR_FOLLOWER), data(one_batch(0), index=1)),
        response(data(one_batch(0)), data(one_batch(1), index=1)),
    )
    consumer = Consumer(scripted.cluster, {ORDERS: 0, OTHERS: 0})
    assert [one.partition for one in consumer.poll()] == [1]
    assert [one.partition for one in consumer.poll()] == [0, 1]


def test_trouble_that_does_not_pass_is_raised_when_the_time_is_up(scripted: Scripted) -> None:
    clock = ManualClock()
    scripted.broker.scripts[FetchRequest] = lambda _: response(data(code=ErrorCode.REPLICA_NOT_AVAILABLE))
    with Cluster(
        scripted.broker.bootstrap,
        timeout_ms=1_000,
        clock=clock,
        sleep=lambda seconds: clock.advance(round(seconds * 1000)),
    ) as cluster:
        consumer = Consumer(cluster, {ORDERS: 0})
        with pytest.raises(Refused, match="partition orders-0: REPLICA_NOT_AVAILABLE"):
            read(consumer, 1)


def test_a_refusal_that_cannot_pass_is_raised_at_once(scripted: Scripted) -> None:
    scripted.answers(response(data(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)))
    with pytest.raises(Refused, match="TOPIC_AUTHORIZATION_FAILED"):
        Consumer(scripted.cluster, {ORDERS: 0}).poll()


def test_no_broker_at_all_is_an_error_at_once() -> None:
    with ScriptedBroker() as broker:
        address = broker.bootstrap
    with patient(address) as cluster, pytest.raises(ConnectionLost, match="cannot reach"):
        Consumer(cluster, {ORDERS: 0}).poll()


def test_a_flipped_bit_is_noticed(scripted: Scripted) -> None:
    damaged = one_batch(0)
    damaged[-1] ^= 1
    scripted.answers(response(data(damaged)))
    with pytest.raises(ClientError, match="orders-0, fetched at offset 0: checksum"):
        Consumer(scripted.cluster, {ORDERS: 0}).poll()


def test_records_that_contradict_their_batch_are_noticed(scripted: Scripted) -> None:
    lying = batch.build([Record(0, 0, None, b"v")])
    lying[57:61] = (2).to_bytes(4, "big")
    batch.set_max_timestamp(lying, 0)
    scripted.answers(response(data(lying)))
    with pytest.raises(ClientError, match="orders-0, batch at offset 0"):
        Consumer(scripted.cluster, {ORDERS: 0}).poll()


def test_a_batch_cut_off_at_the_end_is_fetched_again(scripted: Scripted) -> None:
    whole = one_batch(0) + one_batch(1)
    scripted.answers(response(data(whole[:-3])), response(data(one_batch(1))))
    consumer = Consumer(scripted.cluster, {ORDERS: 0})
    assert [one.offset for one in read(consumer, 2)] == [0, 1]


def test_an_answer_without_a_whole_batch_is_an_error_not_a_loop(scripted: Scripted) -> None:
    scripted.answers(response(data(one_batch(0)[:-3])))
    with pytest.raises(ClientError, match=r"holds no whole batch.*partition_bytes_max"):
        Consumer(scripted.cluster, {ORDERS: 0}).poll()


def test_control_batches_and_what_compaction_emptied_are_passed_over(scripted: Scripted) -> None:
    marker = batch.build_marker(Marker(True, 0), base_offset=1, timestamp_ms=0, producer_id=1, producer_epoch=0)
    emptied = batch.build([], base_offset=2, last_offset_delta=7)
    scripted.answers(response(data(one_batch(0) + marker + emptied)))
    consumer = Consumer(scripted.cluster, {ORDERS: 0})
    assert [one.offset for one in consumer.poll()] == [0]
    assert consumer.positions == {ORDERS: 10}


def transactions() -> tuple[bytearray, list[AbortedTransaction]]:
    """Producer 1 aborts at offset 3 and commits at 6; producer 2 has committed all along; one has no transaction."""

    def marker(offset: int, producer_id: int, *, committed: bool) -> bytearray:
        return batch.build_marker(
            Marker(committed, 0), base_offset=offset, timestamp_ms=0, producer_id=producer_id, producer_epoch=0
        )

    log = (
        one_batch(0, producer_id=2)
        + one_batch(1, 2, producer_id=1)
        + marker(3, 1, committed=False)
        + marker(4, 2, committed=True)
        + one_batch(5, producer_id=1)
        + marker(6, 1, committed=True)
        + one_batch(7)
        + one_batch(8, producer_id=1)
    )
    return log, [AbortedTransaction(producer_id=1, first_offset=8), AbortedTransaction(producer_id=1, first_offset=1)]


def test_committed_records_only_leave_out_aborted_ones(scripted: Scripted) -> None:
    log, aborted = transactions()
    scripted.answers(response(data(log, aborted_transactions=aborted)))
    consumer = Consumer(scripted.cluster, {ORDERS: 0}, committed_only=True)

    assert [one.offset for one in consumer.poll()] == [0, 5, 7]

    assert consumer.positions == {ORDERS: 9}, "past what was left out"
    assert consumer.end_offsets == {ORDERS: 50}, "the last stable offset"
    (request,) = scripted.broker.sent(FetchRequest)
    assert isinstance(request, FetchRequest)
    assert request.isolation_level == 1


def test_uncommitted_records_are_read_by_default(scripted: Scripted) -> None:
    log, aborted = transactions()
    scripted.answers(response(data(log, aborted_transactions=aborted)))
    consumer = Consumer(scripted.cluster, {ORDERS: 0})
    assert [one.offset for one in consumer.poll()] == [0, 1, 2, 5, 7, 8]
    assert consumer.end_offsets == {ORDERS: 100}


def test_an_answer_about_something_else_is_passed_over(scripted: Scripted) -> None:
    scripted.answers(
        FetchResponse(responses=[FetchableTopicResponse(topic="strangers", partitions=[data(one_batch(0))])]),
        response(data(one_batch(0), index=9)),
        response(data(one_batch(0))),
    )
    consumer = Consumer(scripted.cluster, {ORDERS: 0})
    assert consumer.poll() == []
    assert consumer.poll() == []
    assert [one.offset for one in consumer.poll()] == [0]


# -- two leaders


@pytest.fixture
def pair() -> Iterator[tuple[ScriptedBroker, ScriptedBroker, Cluster]]:
    """Each leads one partition."""
    with ScriptedBroker() as first, ScriptedBroker() as second:
        metadata = leading({"orders": 2}, {1: first.endpoint, 2: second.endpoint})
        for each in (first, second):
            each.scripts[MetadataRequest] = metadata
        with patient(first.bootstrap) as cluster:
            yield first, second, cluster


def growing(index: int) -> Callable[[Request], FetchResponse]:
    """One more record with every fetch."""

    def script(request: Request) -> FetchResponse:
        assert isinstance(request, FetchRequest)
        return response(data(one_batch(request.topics[0].partitions[0].fetch_offset), index=index))

    return script


def test_each_leader_is_asked_for_its_own_partitions(pair: tuple[ScriptedBroker, ScriptedBroker, Cluster]) -> None:
    first, second, cluster = pair
    first.scripts[FetchRequest], second.scripts[FetchRequest] = growing(0), growing(1)
    consumer = Consumer(cluster, {ORDERS: 0, OTHERS: 0})
    records: list[ConsumedRecord] = []
    while not all(consumer.positions[partition] >= 3 for partition in (ORDERS, OTHERS)):
        records += consumer.poll()
    for index in (0, 1):
        assert [one.offset for one in records if one.partition == index][:3] == [0, 1, 2]


def test_a_leader_with_nothing_to_say_does_not_hold_up_another(
    pair: tuple[ScriptedBroker, ScriptedBroker, Cluster],
) -> None:
    first, second, cluster = pair
    first.scripts[FetchRequest], second.scripts[FetchRequest] = lambda _: b"", growing(1)
    consumer = Consumer(cluster, {ORDERS: 0, OTHERS: 0})
    assert [one.partition for one in read(consumer, 5)] == [1] * 5
    assert len(first.sent(FetchRequest)) <= 1, "one long poll is enough"


def test_a_leader_that_is_gone_does_not_keep_others_from_being_read(
    pair: tuple[ScriptedBroker, ScriptedBroker, Cluster],
) -> None:
    first, second, cluster = pair
    first.scripts[FetchRequest] = growing(0)
    cluster.topic("orders")
    second.__exit__(None, None, None)
    consumer = Consumer(cluster, {ORDERS: 0, OTHERS: 0})
    assert [one.partition for one in read(consumer, 5)] == [0] * 5


def test_a_leader_that_is_silent_for_too_long_is_asked_again() -> None:
    with ScriptedBroker() as first, ScriptedBroker() as second:
        metadata = leading({"orders": 2}, {1: first.endpoint, 2: second.endpoint})
        for each in (first, second):
            each.scripts[MetadataRequest] = metadata
        clock = ManualClock()
        silent = [b""]
        first.scripts[FetchRequest] = lambda request: silent.pop() if silent else growing(0)(request)
        second.scripts[FetchRequest] = growing(1)
        with Cluster(first.bootstrap, clock=clock, sleep=lambda _: None) as cluster:
            consumer = Consumer(cluster, {ORDERS: 0, OTHERS: 0})
            read(consumer, 3)
            assert consumer.positions[ORDERS] == 0
            clock.advance(cluster.timeout_ms + 1_000)
            while consumer.positions[ORDERS] == 0:
                consumer.poll()
