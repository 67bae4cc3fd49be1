"""Requests of tools about transactions, and markers that an administrator writes for hanging ones."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

import pytest

from headwater.clock import ManualClock
from headwater.errors import ErrorCode
from headwater.protocol.messages.transactions.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from headwater.protocol.messages.transactions.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from headwater.testing import Broker
from tests.support.broker.faulty_disk import BROKEN, FaultyDisk
from tests.support.kafka.raw_client import NOW_MS, RawClient, batch_of
from tests.support.kafka.raw_groups import committed, find
from tests.support.kafka.raw_transactions import (
    SETTINGS,
    TIMEOUT_MS,
    Producer,
    add,
    commit_offset,
    committed_values,
    describe,
    ended,
    init,
    markers,
    producers,
    stable_offset,
    written,
)

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(SETTINGS) as broker:
        yield broker


@pytest.fixture
def producer(client: RawClient) -> Producer:
    return init(client, f"transaction-{uuid4().hex}")


# -- WriteTxnMarkers


def marker_of(
    producer: Producer,
    topics: Mapping[str, Sequence[int]],
    *,
    commit: bool = False,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
) -> WritableTxnMarker:
    return WritableTxnMarker(
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        transaction_result=commit,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=list(indexes)) for name, indexes in topics.items()],
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction_version,
    )


def write_markers(
    client: RawClient, *asked: WritableTxnMarker, version: int = 2
) -> list[tuple[int, dict[tuple[str, int], int]]]:
    told = client.ask(WriteTxnMarkersRequest(markers=list(asked)), WriteTxnMarkersResponse, version)
    return [
        (
            each.producer_id,
            {
                (topic.name, found.partition_index): found.error_code
                for topic in each.topics
                for found in topic.partitions
            },
        )
        for each in told.markers
    ]


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("version", range(1, 3))
def test_an_administrator_ends_a_hanging_transaction(
    client: RawClient, topic: str, producer: Producer, version: int, is_commit: bool
) -> None:
    written(client, producer, topic, b"hanging")
    assert (stable_offset(client, topic), committed_values(client, topic)) == (0, [])
    told = write_markers(client, marker_of(producer, {topic: [0]}, commit=is_commit), version=version)

    assert told == [(producer.id, {(topic, 0): 0})]
    assert markers(client, topic) == [(producer.id, producer.epoch, is_commit)]
    assert stable_offset(client, topic) == 2
    assert committed_values(client, topic) == ([b"hanging"] if is_commit else [])


@pytest.mark.parametrize("version", range(1, 3))
def test_each_partition_has_its_own_outcome(client: RawClient, topic: str, producer: Producer, version: int) -> None:
    written(client, producer, topic, b"a")
    second = init(client, f"{producer.transactional_id}-2")
    told = write_markers(
        client,
        # A partition that is listed twice gets one marker.
        marker_of(producer, {topic: [0, 0, 1, -1], "nowhere": [0], "__transaction_state": [0]}),
        marker_of(second, {topic: [0], "__consumer_offsets": [99]}),
        version=version,
    )
    assert told == [
        (
            producer.id,
            {
                (topic, 0): 0,
                (topic, 1): UNKNOWN,
                (topic, -1): UNKNOWN,
                ("nowhere", 0): UNKNOWN,
                ("__transaction_state", 0): UNKNOWN,
            },
        ),
        (second.id, {(topic, 0): 0, ("__consumer_offsets", 99): UNKNOWN}),
    ]
    assert markers(client, topic) == [(producer.id, 0, False), (second.id, 0, False)]


@pytest.mark.parametrize("transaction_version", [0, 1, 2])
def test_a_marker_with_an_older_epoch_is_refused(
    client: RawClient, topic: str, producer: Producer, transaction_version: int
) -> None:
    next_one = init(client, producer.transactional_id)
    written(client, next_one, topic, b"a")
    late = marker_of(producer, {topic: [0]}, transaction_version=transaction_version)
    assert write_markers(client, late) == [(producer.id, {(topic, 0): ErrorCode.INVALID_PRODUCER_EPOCH})]
    # In protocol 2 a marker has a higher epoch than the records of its transaction.
    same = marker_of(next_one, {topic: [0]}, commit=True, transaction_version=transaction_version)
    code = ErrorCode.INVALID_PRODUCER_EPOCH if transaction_version == 2 else ErrorCode.NONE
    assert write_markers(client, same) == [(producer.id, {(topic, 0): code})]
    assert committed_values(client, topic) == ([] if code else [b"a"])


def test_an_administrator_ends_hanging_transactions_of_group_offsets(
    client: RawClient, topic: str, producer: Producer
) -> None:
    group = f"group-{uuid4().hex}"
    find(client, group)
    assert commit_offset(client, producer, group, topic, 7) == 0
    told = write_markers(client, marker_of(producer, {"__consumer_offsets": [0, 1, 2]}, commit=True))
    assert told == [(producer.id, {("__consumer_offsets", index): 0 for index in range(3)})]
    assert committed(client, group, topic).committed_offset == 7


def test_an_administrators_marker_does_not_prevent_the_coordinators_own(
    client: RawClient, topic: str, producer: Producer
) -> None:
    written(client, producer, topic, b"a")
    told = write_markers(client, marker_of(producer, {topic: [0]}, coordinator_epoch=1))
    assert told == [(producer.id, {(topic, 0): ErrorCode.INVALID_REQUEST})]
    after = ended(client, producer)
    assert committed_values(client, topic) == [b"a"]
    # A marker of an earlier coordinator comes too late.
    written(client, after, topic, b"b")
    told = write_markers(client, marker_of(after, {topic: [0]}, coordinator_epoch=-1))
    assert told == [(producer.id, {(topic, 0): ErrorCode.TRANSACTION_COORDINATOR_FENCED})]


# -- DescribeProducers


def test_the_producers_of_a_partition_are_described(client: RawClient, topic: str, producer: Producer) -> None:
    assert producers(client, topic).active_producers == []
    client.produce(topic, batch_of(b"a", b"b", producer_id=9_999, producer_epoch=3, base_sequence=0))
    written(client, producer, topic, b"c", b"d")

    plain, transactional = sorted(producers(client, topic).active_producers, key=lambda each: -each.producer_id)
    assert (plain.producer_id, plain.producer_epoch, plain.last_sequence) == (9_999, 3, 1)
    assert (plain.current_txn_start_offset, plain.coordinator_epoch) == (-1, -1)
    assert (transactional.producer_id, transactional.last_sequence) == (producer.id, 1)
    assert (transactional.current_txn_start_offset, transactional.coordinator_epoch) == (2, -1)

    ended(client, producer)
    described = {each.producer_id: each for each in producers(client, topic).active_producers}
    after = described[producer.id]
    assert (after.producer_epoch, after.current_txn_start_offset, after.coordinator_epoch) == (1, -1, 0)


def test_producers_of_unknown_partitions_are_refused(client: RawClient, topic: str) -> None:
    for where, index in ((topic, 1), (topic, -1), ("nowhere", 0)):
        told = producers(client, where, index)
        assert (told.error_code, told.active_producers) == (UNKNOWN, [])
        assert told.error_message


def test_producers_of_an_offline_partition_are_refused() -> None:
    disk = FaultyDisk()
    with Broker(SETTINGS, disk=disk) as broker, RawClient(broker) as client:
        client.create("cursed")
        disk.sync_error = BROKEN
        assert client.produce("cursed", batch_of(b"a")).error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        told = producers(client, "cursed")
        assert (told.error_code, told.active_producers) == (ErrorCode.KAFKA_STORAGE_ERROR, [])


# -- DescribeTransactions


def test_transactions_are_described_from_begin_to_end(timed: Broker, clock: ManualClock) -> None:
    with RawClient(timed) as client:
        client.create("wide", 2)
        client.create("other")
        first = init(client, "first")
        (told,) = describe(client, "first")
        assert (told.error_code, told.transaction_state, told.transaction_start_time_ms) == (0, "Empty", -1)
        assert (told.producer_id, told.producer_epoch, told.transaction_timeout_ms) == (first.id, 0, TIMEOUT_MS)

        clock.advance(5)
        assert add(client, first, "wide") == add(client, first, "other") == 0
        clock.advance(5)
        told, unknown, nameless = describe(client, "first", "nobody's", "", "first")
        assert (told.transaction_state, told.transaction_start_time_ms) == ("Ongoing", NOW_MS + 5)
        assert [(each.topic, each.partitions) for each in told.topics] == [("other", [0]), ("wide", [0])]
        assert (unknown.error_code, unknown.topics) == (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, [])
        assert nameless.error_code == ErrorCode.INVALID_REQUEST

        ended(client, first)
        (told,) = describe(client, "first")
        assert (told.transaction_state, told.producer_epoch, told.topics) == ("CompleteCommit", 1, [])


def test_no_transaction_is_described_before_any_coordinator_lookup() -> None:
    with Broker(SETTINGS) as broker, RawClient(broker) as client:
        (told,) = describe(client, "first")
        assert told.error_code == ErrorCode.NOT_COORDINATOR
        told = ask_listed(client, 2)
        assert (told.error_code, told.transaction_states) == (0, [])


# -- ListTransactions


def ask_listed(
    client: RawClient,
    version: int,
    *,
    states: Sequence[str] = (),
    producer_ids: Sequence[int] = (),
    duration_ms: int = -1,
    pattern: str | None = None,
) -> ListTransactionsResponse:
    request = ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=list(producer_ids),
        duration_filter=duration_ms,
        transactional_id_pattern=pattern,
    )
    return client.ask(request, ListTransactionsResponse, version)


def listed(client: RawClient, version: int, **filters: Any) -> list[str]:
    told = ask_listed(client, version, **filters)
    assert told.error_code == 0
    return sorted(each.transactional_id for each in told.transaction_states)


def test_transactions_are_listed_by_state_producer_duration_and_name(timed: Broker, clock: ManualClock) -> None:
    with RawClient(timed) as client:
        client.create("topic")
        idle = init(client, "idle")
        old = init(client, "open-old")
        written(client, old, "topic", b"a")
        clock.advance(1000)
        young = init(client, "open-young")
        written(client, young, "topic", b"b")
        done = init(client, "done")
        written(client, done, "topic", b"c")
        ended(client, done, commit=False)

        for version in range(3):
            told = ask_listed(client, version)
            found = {
                (each.transactional_id, each.producer_id, each.transaction_state) for each in told.transaction_states
            }
            assert found == {
                ("idle", idle.id, "Empty"),
                ("open-old", old.id, "Ongoing"),
                ("open-young", young.id, "Ongoing"),
                ("done", done.id, "CompleteAbort"),
            }
            assert listed(client, version, states=["Ongoing"]) == ["open-old", "open-young"]
            assert listed(client, version, states=["Empty", "CompleteAbort"]) == ["done", "idle"]
            assert listed(client, version, producer_ids=[old.id, done.id, 12345]) == ["done", "open-old"]
            assert listed(client, version, states=["Ongoing"], producer_ids=[done.id]) == []
        for version in (1, 2):
            assert listed(client, version, states=["Ongoing"], duration_ms=999) == ["open-old"]
            assert listed(client, version, states=["Ongoing"], duration_ms=1000) == []
        assert listed(client, 2, pattern="open-.*") == ["open-old", "open-young"]
        assert listed(client, 2, pattern="open") == []


@pytest.mark.parametrize("version", range(3))
def test_unknown_state_filters_are_named(client: RawClient, version: int) -> None:
    told = ask_listed(client, version, states=["Ongoing", "Lost", "Dead"])
    assert (told.error_code, told.unknown_state_filters) == (0, ["Lost"])
    assert ask_listed(client, version, states=["Lost"]).transaction_states == []


def test_an_invalid_pattern_is_refused(client: RawClient) -> None:
    told = ask_listed(client, 2, pattern="(open")
    assert (told.error_code, told.transaction_states) == (ErrorCode.INVALID_REGULAR_EXPRESSION, [])
