"""A streaming read: batches follow each other without a gap, across restarts, new partitions and new topics."""

from itertools import chain
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.clock import ManualClock
from headwater.errors import ConfigError
from headwater.testing import Broker
from tests.support.spark.reads import Query, numbered, produce, ranges, rows, stream, values


@pytest.fixture
def single(cluster: Cluster, topic: str) -> str:
    """A topic of one partition."""
    Admin(cluster).create_topic(topic, partition_count=1)
    return topic


def test_batches_follow_each_other_and_a_restarted_query_reads_exactly_the_rest(
    headwater_broker: Broker, cluster: Cluster, single: str
) -> None:
    given = {"subscribe": single, "startingOffsets": "earliest"}
    produce(cluster, single, numbered(3))
    query = Query(stream(headwater_broker, given))
    assert query.next() == numbered(3)
    produce(cluster, single, numbered(2, 3))
    assert query.next() == numbered(2, 3)
    assert query.next() == []

    produce(cluster, single, numbered(4, 5))
    restarted = Query(stream(headwater_broker, given), query.reached)
    assert restarted.next() == numbered(4, 5)


def test_a_batch_replayed_after_a_restart_is_the_same(headwater_broker: Broker, cluster: Cluster, single: str) -> None:
    given = {"subscribe": single, "startingOffsets": "earliest"}
    produce(cluster, single, numbered(3))
    end, _ = Query(stream(headwater_broker, given)).plan()
    produce(cluster, single, numbered(3, 3))

    again = stream(headwater_broker, given)
    assert values(rows(again, again.partitions(again.initialOffset(), end))) == numbered(3)


# -- where a query begins


def test_offsets_are_written_as_sparks_kafka_source_writes_them(
    headwater_broker: Broker, cluster: Cluster, topic: str
) -> None:
    produce(cluster, topic, numbered(2), partition=1)
    reader = stream(headwater_broker, {"subscribe": topic, "startingOffsets": f'{{"{topic}":{{"0":-1,"1":1,"2":-2}}}}'})

    assert reader.initialOffset() == {topic: {"0": 0, "1": 1, "2": 0}}


def test_latest_is_resolved_once(headwater_broker: Broker, cluster: Cluster, single: str) -> None:
    produce(cluster, single, numbered(3))
    reader = stream(headwater_broker, {"subscribe": single})
    assert reader.initialOffset() == {single: {"0": 3}}

    produce(cluster, single, numbered(3, 3))
    assert reader.initialOffset() == {single: {"0": 3}}


@pytest.mark.parametrize(
    "bound",
    [
        {"startingOffsets": "latest"},
        {"startingOffsets": '{"TOPIC": {"0": -1}}'},
        {"startingTimestamp": str(2**60), "startingOffsetsByTimestampStrategy": "latest"},
    ],
)
def test_a_query_from_the_end_loses_nothing_if_it_stops_in_its_first_batch(
    headwater_broker: Broker, cluster: Cluster, single: str, bound: dict[str, str]
) -> None:
    given = {"subscribe": single, **{name: text.replace("TOPIC", single) for name, text in bound.items()}}
    produce(cluster, single, numbered(3))
    first = stream(headwater_broker, given)
    start = first.initialOffset()
    produce(cluster, single, numbered(2, 3))
    # Spark's checkpoint keeps only the end of the batch.
    end = first.latestOffset(start, first.getDefaultReadLimit())
    produce(cluster, single, numbered(1, 5))

    second = stream(headwater_broker, given)
    assert second.partitions(second.initialOffset(), end) == []
    assert Query(second, end).next() == numbered(3, 3)


def test_a_query_from_the_end_goes_on_from_there_without_a_restart(
    headwater_broker: Broker, cluster: Cluster, single: str
) -> None:
    produce(cluster, single, numbered(3))
    query = Query(stream(headwater_broker, {"subscribe": single}))
    assert query.next() == []

    produce(cluster, single, numbered(2, 3))
    assert query.next() == numbered(2, 3)


@pytest.mark.parametrize("name", ["startingTimestamp", "startingOffsetsByTimestamp"])
def test_a_query_begins_at_a_time(headwater_broker: Broker, cluster: Cluster, single: str, name: str) -> None:
    produce(cluster, single, numbered(3), times_ms=[1000, 2000, 3000])
    text = "1500" if name == "startingTimestamp" else f'{{"{single}": {{"0": 1500}}}}'

    assert Query(stream(headwater_broker, {"subscribe": single, name: text})).next() == numbered(2, 1)


def test_a_starting_time_after_all_records_is_refused_unless_the_strategy_is_latest(
    headwater_broker: Broker, cluster: Cluster, single: str
) -> None:
    produce(cluster, single, numbered(1), times_ms=[1000])
    with pytest.raises(ConfigError, match=f"no record of {single}-0 is as young as 5000.*Strategy' to 'latest'"):
        stream(headwater_broker, {"subscribe": single, "startingTimestamp": "5000"}).initialOffset()


# -- how much a batch takes


def test_a_batch_takes_no_more_than_its_limit(headwater_broker: Broker, cluster: Cluster, topic: str) -> None:
    for partition in range(3):
        produce(cluster, topic, numbered(10, 10 * partition), partition=partition)
    given = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "12"}
    query = Query(stream(headwater_broker, given))

    found = [query.next() for _ in range(4)]

    assert [len(each) for each in found] == [12, 12, 6, 0]
    assert sorted(chain.from_iterable(found), key=int) == numbered(30)


def test_a_read_limit_of_all_available_overrides_the_options(
    headwater_broker: Broker, cluster: Cluster, single: str
) -> None:
    produce(cluster, single, numbered(30))
    given = {"subscribe": single, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "12"}
    reader = stream(headwater_broker, given)

    assert reader.getDefaultReadLimit() == ReadMaxRows(12)
    assert reader.latestOffset(reader.initialOffset(), ReadAllAvailable()) == {single: {"0": 30}}


def test_a_batch_waits_for_the_minimum_of_records_up_to_the_maximum_delay(
    headwater_broker: Broker, cluster: Cluster, single: str
) -> None:
    clock = ManualClock()
    given = {"subscribe": single, "startingOffsets": "earliest", "minOffsetsPerTrigger": "5", "maxTriggerDelay": "10s"}
    query = Query(stream(headwater_broker, given, clock))
    produce(cluster, single, numbered(1))
    assert query.next() == numbered(1), "as in Spark's Kafka source, the first batch waits for nothing"

    produce(cluster, single, numbered(4, 1))
    assert query.next() == []
    produce(cluster, single, numbered(1, 5))
    assert query.next() == numbered(5, 1), "there are enough"

    produce(cluster, single, numbered(1, 6))
    clock.advance(9_999)
    assert query.next() == []
    clock.advance(1)
    assert query.next() == numbered(1, 6), "they waited long enough"


def test_a_bounded_trigger_does_not_wait_for_the_minimum(
    headwater_broker: Broker, cluster: Cluster, single: str
) -> None:
    given = {"subscribe": single, "startingOffsets": "earliest", "minOffsetsPerTrigger": "5"}
    produce(cluster, single, numbered(2))
    reader = stream(headwater_broker, given)
    reader.prepareForTriggerAvailableNow()
    query = Query(reader, {single: {"0": 1}})
    assert query.next() == numbered(1, 1)


def test_available_now_ends_at_the_offsets_of_its_start(
    headwater_broker: Broker, cluster: Cluster, single: str
) -> None:
    produce(cluster, single, numbered(5))
    given = {"subscribePattern": f"{single}.*", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "3"}
    reader = stream(headwater_broker, given)
    reader.prepareForTriggerAvailableNow()
    query = Query(reader)
    produce(cluster, single, numbered(5, 5))
    produce(cluster, f"{single}-new", [b"new"])

    assert [query.next() for _ in range(3)] == [numbered(3), numbered(2, 3), []]
    assert reader.reportLatestOffset()[single] == {"0": 10}, "for the metrics of the query"


def test_large_partitions_are_split_into_tasks(headwater_broker: Broker, cluster: Cluster, single: str) -> None:
    produce(cluster, single, numbered(10))
    given = {"subscribe": single, "startingOffsets": "earliest", "minPartitions": "3", "maxRecordsPerPartition": "2"}

    _, planned = Query(stream(headwater_broker, given)).plan()

    assert [each.size for each in ranges(planned)] == [2] * 5


# -- new partitions and topics


def test_new_partitions_are_read_from_their_first_record(
    headwater_broker: Broker, cluster: Cluster, single: str
) -> None:
    produce(cluster, single, numbered(1))
    for choice in ({"subscribe": single}, {"subscribePattern": single}):
        query = Query(stream(headwater_broker, {**choice, "startingOffsets": "latest"}))
        assert query.next() == []
        before = len(cluster.topic(single).partitions)
        Admin(cluster).add_partitions(single, before + 1)
        cluster.forget([single])
        produce(cluster, single, [b"new"], partition=before)

        assert query.next() == [b"new"]
        assert query.next() == []


def test_new_topics_that_match_the_pattern_are_read(headwater_broker: Broker, cluster: Cluster, single: str) -> None:
    query = Query(stream(headwater_broker, {"subscribePattern": f"{single}.*"}))
    assert query.next() == []
    produce(cluster, f"{single}.new", numbered(3))
    assert query.next() == numbered(3)


def test_an_assignment_does_not_grow(headwater_broker: Broker, cluster: Cluster, topic: str) -> None:
    given = {"assign": f'{{"{topic}": [1]}}', "startingOffsets": "earliest"}
    for partition in range(3):
        produce(cluster, topic, [b"%d" % partition], partition=partition)
    assert Query(stream(headwater_broker, given)).next() == [b"1"]


def test_a_query_waits_at_an_open_transaction(headwater_broker: Broker, cluster: Cluster, single: str) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": headwater_broker.bootstrap_servers, "transactional.id": single})
    producer.init_transactions()
    query = Query(stream(headwater_broker, {"subscribe": single, "startingOffsets": "earliest"}))
    produce(cluster, single, [b"before"])
    producer.begin_transaction()
    producer.produce(single, b"inside")
    producer.flush()
    produce(cluster, single, [b"behind"])

    assert query.next() == [b"before"]
    assert query.next() == []
    producer.commit_transaction()
    found: list[bytes] = []
    while not found:
        # The marker reaches the partition a moment after the producer hears of the commit.
        found = query.next()
    assert found == [b"inside", b"behind"]
    assert query.next() == []


def test_a_trigger_without_new_records_costs_few_requests(
    headwater_broker: Broker, cluster: Cluster, topic: str
) -> None:
    produce(cluster, topic, numbered(1))
    # Its own options give it its own connection.
    given = {"subscribe": topic, "startingOffsets": "earliest", "kafka.client.id": topic}
    query = Query(stream(headwater_broker, given))
    query.next()
    # The group that should bring the name of the query has none, and is not asked for ever.
    query.next()
    connections: dict[Any, Any] = query.reader._options.broker_address.cluster()._connections
    before = sum(connection._correlation_id for connection in connections.values())

    assert query.next() == []

    after = sum(connection._correlation_id for connection in connections.values())
    assert after - before == 2, "which partitions there are, and where they end"
