"""The consumer against scripted answers: leaders that move or fail, damaged batches, transactions."""

from collections.abc import Callable, Iterator

import pytest

from headwater.client.cluster import Cluster
from headwater.client.consumer import ConsumedRecord, Consumer
from headwater.client.errors import ClientError, ConnectionLost, Refused
from headwater.clock import ManualClock
from headwater.errors import ErrorCode
from headwater.ids import TopicName, TopicPartition
from headwater.protocol.batches import batch
from headwater.protocol.batches.batch import Marker
from headwater.protocol.batches.records import Record
from headwater.protocol.messages.records.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from headwater.protocol.messages.topics.metadata import MetadataRequest
from headwater.protocol.wire.codec import Request, Response
from tests.client.consumed_records import read
from tests.support.client.scripted import ScriptedBroker, leading, patient

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
    """One encoded batch; with a producer id it belongs to a transaction."""
    records = [Record(offset + index, 0, None, b"%d" % (offset + index)) for index in range(count)]
    if producer_id is None:
        return batch.build(records, base_offset=offset)
    return batch.build(
        records, base_offset=offset, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True
    )


class Scripted:
    """A broker that leads both partitions and answers fetches from a list of responses."""

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


def test_a_failing_partition_does_not_keep_others_from_being_read(scripted: Scripted) -> None:
    scripted.answers(
        response(data(code=ErrorCode.NOT_LEADER_OR_FOLLOWER), data(one_batch(0), index=1)),
        response(data(one_batch(0)), data(one_batch(1), index=1)),
    )
    consumer = Consumer(scripted.cluster, {ORDERS: 0, OTHERS: 0})
    assert [one.partition for one in consumer.poll()] == [1]
    assert [one.partition for one in consumer.poll()] == [0, 1]


def test_a_retriable_error_is_raised_at_the_time_out(scripted: Scripted) -> None:
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


def test_a_fatal_error_is_raised_at_once(scripted: Scripted) -> None:
    scripted.answers(response(data(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)))
    with pytest.raises(Refused, match="TOPIC_AUTHORIZATION_FAILED"):
        Consumer(scripted.cluster, {ORDERS: 0}).poll()


def test_an_unreachable_cluster_is_an_error_at_once() -> None:
    with ScriptedBroker() as broker:
        address = broker.bootstrap
    with patient(address) as cluster, pytest.raises(ConnectionLost, match="cannot reach"):
        Consumer(cluster, {ORDERS: 0}).poll()


def test_a_flipped_bit_is_detected(scripted: Scripted) -> None:
    damaged = one_batch(0)
    damaged[-1] ^= 1
    scripted.answers(response(data(damaged)))
    with pytest.raises(ClientError, match="orders-0, fetched at offset 0: checksum"):
        Consumer(scripted.cluster, {ORDERS: 0}).poll()


def test_records_that_contradict_their_batch_are_detected(scripted: Scripted) -> None:
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


def test_a_response_without_a_whole_batch_is_an_error_and_not_an_endless_loop(scripted: Scripted) -> None:
    scripted.answers(response(data(one_batch(0)[:-3])))
    with pytest.raises(ClientError, match=r"holds no whole batch.*partition_bytes_max"):
        Consumer(scripted.cluster, {ORDERS: 0}).poll()


def test_control_batches_and_batches_emptied_by_compaction_are_skipped(scripted: Scripted) -> None:
    marker = batch.build_marker(Marker(True, 0), base_offset=1, timestamp_ms=0, producer_id=1, producer_epoch=0)
    emptied = batch.build([], base_offset=2, last_offset_delta=7)
    scripted.answers(response(data(one_batch(0) + marker + emptied)))
    consumer = Consumer(scripted.cluster, {ORDERS: 0})
    assert [one.offset for one in consumer.poll()] == [0]
    assert consumer.positions == {ORDERS: 10}


def transactions() -> tuple[bytearray, list[AbortedTransaction]]:
    """Producer 1 aborts at offset 3 and commits at 6, producer 2 commits; one batch belongs to no transaction."""

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


def test_read_committed_leaves_out_aborted_records(scripted: Scripted) -> None:
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


def test_an_answer_about_another_partition_is_ignored(scripted: Scripted) -> None:
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
    """Two brokers, each the leader of one partition."""
    with ScriptedBroker() as first, ScriptedBroker() as second:
        metadata = leading({"orders": 2}, {1: first.endpoint, 2: second.endpoint})
        for each in (first, second):
            each.scripts[MetadataRequest] = metadata
        with patient(first.bootstrap) as cluster:
            yield first, second, cluster


def growing(index: int) -> Callable[[Request], FetchResponse]:
    """A script that gives one more record with every fetch."""

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


def test_a_leader_without_new_records_does_not_delay_another(
    pair: tuple[ScriptedBroker, ScriptedBroker, Cluster],
) -> None:
    first, second, cluster = pair
    first.scripts[FetchRequest], second.scripts[FetchRequest] = lambda _: b"", growing(1)
    consumer = Consumer(cluster, {ORDERS: 0, OTHERS: 0})
    assert [one.partition for one in read(consumer, 5)] == [1] * 5
    assert len(first.sent(FetchRequest)) <= 1, "one long poll is enough"


def test_an_unreachable_leader_does_not_keep_others_from_being_read(
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
