"""A batch read gives every record between its bounds once, across gaps, transactions and compaction."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer as ConfluentProducer

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.consumer import PARTITION_BYTES_MAX
from headwater.client.errors import UnknownTopic
from headwater.client.offsets import LATEST, list_offsets
from headwater.client.producer import Producer
from headwater.errors import ConfigError
from headwater.protocol.batches.batch import Codec
from headwater.spark.reads.loss import DataLoss
from headwater.testing import Broker
from tests.support.spark.reads import batch, numbered, one, produce, ranges, read, rows, values

DAY_MS = 86_400_000


def transactional(broker: Broker) -> ConfluentProducer:
    producer = ConfluentProducer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": uuid4().hex})
    producer.init_transactions()
    return producer


def await_markers(cluster: Cluster, topic: str) -> None:
    """Wait for the markers: a producer hears the decision before the markers reach the partitions."""
    partition = [one(topic)]
    while list_offsets(cluster, partition, LATEST, committed_only=True) != list_offsets(cluster, partition, LATEST):
        pass


# -- what is read


def test_topics_are_read_by_name(headwater_broker: Broker, cluster: Cluster, topic: str) -> None:
    for name in (topic, f"{topic}-2"):
        Admin(cluster).create_topic(name, partition_count=2)
        for partition in range(2):
            produce(cluster, name, [b"%s-%d" % (name.encode(), partition)], partition=partition)

    found = values(read(headwater_broker, {"subscribe": f"{topic}, {topic}-2"}))

    assert found == [b"%s-%d" % (name.encode(), index) for name in (topic, f"{topic}-2") for index in range(2)]


def test_a_pattern_matches_topics_but_not_internal_ones(headwater_broker: Broker, cluster: Cluster, topic: str) -> None:
    for name in (f"{topic}.a", f"{topic}.b", f"x{topic}.a"):
        produce(cluster, name, [name.encode()])
    # Makes sure that an internal topic exists that the second pattern could match.
    with Cluster(headwater_broker.bootstrap_servers) as other:
        Admin(other).list_topics()

    assert values(read(headwater_broker, {"subscribePattern": rf"{topic}\.\w"})) == [
        f"{topic}.a".encode(),
        f"{topic}.b".encode(),
    ]
    assert values(read(headwater_broker, {"subscribePattern": "__consumer.*"})) == []


def test_partitions_are_read_by_assignment(headwater_broker: Broker, cluster: Cluster, topic: str) -> None:
    for partition in range(3):
        produce(cluster, topic, [b"%d" % partition], partition=partition)

    assert values(read(headwater_broker, {"assign": f'{{"{topic}": [2, 0]}}'})) == [b"0", b"2"]
    with pytest.raises(UnknownTopic, match=f"'assign' names {topic}-3"):
        read(headwater_broker, {"assign": f'{{"{topic}": [2, 3]}}'})


def test_a_missing_topic_is_named(headwater_broker: Broker, topic: str) -> None:
    with pytest.raises(UnknownTopic, match=topic):
        read(headwater_broker, {"subscribe": topic})


def test_the_bootstrap_servers_option_of_spark_is_accepted(
    headwater_broker: Broker, cluster: Cluster, topic: str
) -> None:
    produce(cluster, topic, [b"x"])
    given = {"kafka.bootstrap.servers": headwater_broker.bootstrap_servers, "subscribe": topic}

    assert values(read(headwater_broker, given)) == [b"x"]


def test_an_empty_topic_has_one_task_without_rows(headwater_broker: Broker, cluster: Cluster, topic: str) -> None:
    Admin(cluster).create_topic(topic)
    reader = batch(headwater_broker, {"subscribe": topic})

    assert len(reader.partitions()) == 1, "Spark would plan one that is not ours"
    assert rows(reader, reader.partitions()) == []


# -- bounds


@pytest.fixture
def dated(cluster: Cluster, topic: str) -> str:
    """Ten records in each of two partitions, a day between two of them, the first in 1970."""
    Admin(cluster).create_topic(topic, partition_count=2, settings={"retention.ms": "-1"})
    for partition in range(2):
        times_ms = [day * DAY_MS for day in range(10)]
        produce(cluster, topic, numbered(10, 10 * partition), partition=partition, times_ms=times_ms)
    return topic


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, [*range(10), *range(10, 20)]),
        ({"startingOffsets": "earliest", "endingOffsets": "latest"}, [*range(10), *range(10, 20)]),
        ({"startingOffsets": '{"TOPIC": {"0": 7, "1": -2}}'}, [7, 8, 9, *range(10, 20)]),
        ({"endingOffsets": '{"TOPIC": {"0": 2, "1": -1}}'}, [0, 1, *range(10, 20)]),
        ({"startingOffsets": '{"TOPIC": {"0": 7, "1": 3}}', "endingOffsets": '{"TOPIC": {"0": 5, "1": 4}}'}, [13]),
        ({"startingTimestamp": str(8 * DAY_MS)}, [8, 9, 18, 19]),
        ({"startingTimestamp": str(8 * DAY_MS - 1)}, [8, 9, 18, 19]),
        ({"startingTimestamp": str(8 * DAY_MS + 1)}, [9, 19]),
        ({"endingTimestamp": str(2 * DAY_MS)}, [0, 1, 10, 11]),
        ({"endingTimestamp": str(99 * DAY_MS), "startingTimestamp": str(9 * DAY_MS)}, [9, 19]),
        (
            {
                "startingOffsetsByTimestamp": f'{{"TOPIC": {{"0": {9 * DAY_MS}, "1": {5 * DAY_MS}}}}}',
                "endingOffsetsByTimestamp": f'{{"TOPIC": {{"0": {20 * DAY_MS}, "1": {7 * DAY_MS}}}}}',
            },
            [9, 15, 16],
        ),
        ({"startingTimestamp": str(99 * DAY_MS), "startingOffsetsByTimestampStrategy": "latest"}, []),
    ],
)
def test_a_read_begins_and_ends_at_the_given_bounds(
    headwater_broker: Broker, dated: str, given: dict[str, str], expected: list[int]
) -> None:
    options = {name: text.replace("TOPIC", dated) for name, text in given.items()}

    assert values(read(headwater_broker, {"subscribe": dated, **options})) == [b"%d" % number for number in expected]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"startingOffsets": '{"TOPIC": {"0": 7}}'}, "must name every partition that is read; TOPIC-1 is missing"),
        ({"endingOffsets": '{"TOPIC": {"0": 7, "1": 7, "2": 7}}'}, "names TOPIC-2, which is none of those"),
        ({"startingOffsetsByTimestamp": '{"other": {"0": 7}}'}, "TOPIC-0 is missing"),
        ({"startingTimestamp": str(99 * DAY_MS)}, f"no record of TOPIC-0 is as young as {99 * DAY_MS}"),
    ],
)
def test_bounds_outside_of_the_topic_are_refused(
    headwater_broker: Broker, dated: str, given: dict[str, str], said: str
) -> None:
    options = {name: text.replace("TOPIC", dated) for name, text in given.items()}

    with pytest.raises(ConfigError, match=said.replace("TOPIC", dated)):
        batch(headwater_broker, {"subscribe": dated, **options}).partitions()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"endingOffsets": '{"TOPIC": {"0": 11, "1": 3}}'}, "TOPIC-0: expected offset 11, but it ends at 10"),
        ({"startingOffsets": '{"TOPIC": {"0": 0, "1": 12}}'}, "TOPIC-1: expected offset 12, but it ends at 10"),
    ],
)
def test_offsets_beyond_the_end_are_a_data_loss_or_are_moved_into_the_partition(
    headwater_broker: Broker, dated: str, given: dict[str, str], said: str
) -> None:
    options = {"subscribe": dated, **{name: text.replace("TOPIC", dated) for name, text in given.items()}}

    with pytest.raises(DataLoss, match=said.replace("TOPIC", dated)):
        batch(headwater_broker, options).partitions()
    assert len(read(headwater_broker, {**options, "failOnDataLoss": "false"})) in {13, 10}


# -- tasks


def test_large_partitions_are_split_into_tasks(headwater_broker: Broker, dated: str) -> None:
    reader = batch(headwater_broker, {"subscribe": dated, "minPartitions": "5"})

    assert len(ranges(reader.partitions())) == 6
    assert values(rows(reader, reader.partitions())) == numbered(20)


def test_no_task_has_more_records_than_allowed(headwater_broker: Broker, dated: str) -> None:
    reader = batch(headwater_broker, {"subscribe": dated, "maxRecordsPerPartition": "3"})

    assert [each.size for each in ranges(reader.partitions())] == [2, 3, 2, 3] * 2
    assert values(rows(reader, reader.partitions())) == numbered(20)


def test_a_thousand_partitions_are_planned_with_three_requests() -> None:
    with Broker({"num.partitions": "1000"}) as broker:
        with Cluster(broker.bootstrap_servers) as cluster:
            cluster.topic("wide", create=True)
            produce(cluster, "wide", [b"x"], partition=999)
        reader = batch(broker, {"subscribe": "wide"})
        reader.partitions()
        [connection] = reader._options.broker_address.cluster()._connections.values()  # type: ignore[attr-defined]
        before = connection._correlation_id

        [planned] = ranges(reader.partitions())

        assert planned.partition == one("wide", 999)
        assert connection._correlation_id - before == 3, "the topic, its beginnings, its ends"


# -- records


def test_a_row_has_every_field_of_its_record(headwater_broker: Broker, cluster: Cluster, topic: str) -> None:
    with Producer(cluster) as producer:
        producer.send(topic, b"v", key=b"k", partition=1, timestamp_ms=1_700_000_000_123, headers=(("h", b"x"),))
        producer.send(topic, None, partition=1, timestamp_ms=0, headers=(("é", None), ("h", b""), ("h", b"2")))
        producer.send(topic, b"", key=b"", partition=1, timestamp_ms=1)

    first, second, third = read(headwater_broker, {"subscribe": topic, "includeHeaders": "true"})

    assert first == {
        "key": b"k",
        "value": b"v",
        "topic": topic,
        "partition": 1,
        "offset": 0,
        "timestamp": datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC),
        "timestampType": 0,
        "headers": [{"key": "h", "value": b"x"}],
    }
    assert (second["key"], second["value"], second["offset"]) == (None, None, 1)
    assert second["headers"] == [
        {"key": "é", "value": None},
        {"key": "h", "value": b""},
        {"key": "h", "value": b"2"},
    ]
    assert (third["key"], third["value"], third["headers"]) == (b"", b"", None), "as Spark's Kafka source has it"


@pytest.mark.parametrize("codec", list(Codec))
def test_records_of_every_codec_are_read(headwater_broker: Broker, cluster: Cluster, topic: str, codec: Codec) -> None:
    sent = [b"%d " % number * 50 for number in range(1000)]
    produce(cluster, topic, sent, codec=codec, batch_records_max=300)

    options = {"subscribe": topic, "startingOffsets": f'{{"{topic}": {{"0": 250, "1": 0, "2": 0}}}}'}
    assert values(read(headwater_broker, options)) == sent[250:]


def test_log_append_times_are_told_apart_from_create_times(
    headwater_broker: Broker, cluster: Cluster, topic: str
) -> None:
    admin = Admin(cluster)
    admin.create_topic(topic, partition_count=1)
    produce(cluster, topic, [b"producer"], times_ms=[1000])
    admin.alter_settings(topic, {"message.timestamp.type": "LogAppendTime"})
    produce(cluster, topic, [b"broker", b"broker"], times_ms=[1000, 2000])

    mine, *brokers = read(headwater_broker, {"subscribe": topic})

    assert (mine["timestamp"], mine["timestampType"]) == (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), 0)
    assert {row["timestampType"] for row in brokers} == {1}
    [appended] = {row["timestamp"] for row in brokers}
    assert appended.year > 2000


def test_a_record_larger_than_a_fetch_is_read(headwater_broker: Broker, cluster: Cluster, topic: str) -> None:
    large = bytes(PARTITION_BYTES_MAX + 1000)
    Admin(cluster).create_topic(topic, partition_count=1, settings={"max.message.bytes": str(len(large) + 10_000)})
    produce(cluster, topic, [b"small", large, b"small", large], batch_records_max=1)

    assert values(read(headwater_broker, {"subscribe": topic})) == [b"small", large, b"small", large]


def test_many_rows_are_returned_in_batches_of_moderate_size(
    headwater_broker: Broker, cluster: Cluster, topic: str
) -> None:
    produce(cluster, topic, [b""] * 80_000, batch_records_max=7_000)
    reader = batch(headwater_broker, {"subscribe": topic})

    batches: Any = reader.read(reader.partitions()[0])

    assert [each.num_rows for each in batches] == [35_000, 35_000, 10_000]


# -- gaps


def test_records_of_aborted_and_open_transactions_are_not_read(
    headwater_broker: Broker, cluster: Cluster, topic: str
) -> None:
    produce(cluster, topic, [b"plain"])
    producer = transactional(headwater_broker)
    for value, commits in ((b"committed", True), (b"aborted", False)):
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        producer.flush()
        if commits:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush()
    produce(cluster, topic, [b"behind it"])

    assert values(read(headwater_broker, {"subscribe": topic})) == [b"plain", b"committed"]
    for name in ("isolation.level", "kafka.isolation.level"):
        found = read(headwater_broker, {"subscribe": topic, name: "read_uncommitted"})
        assert values(found) == [b"plain", b"committed", b"aborted", b"open", b"behind it"]
        assert [row["offset"] for row in found] == [0, 1, 3, 5, 6], "markers have offsets, but are no records"

    producer.abort_transaction()
    await_markers(cluster, topic)
    assert values(read(headwater_broker, {"subscribe": topic})) == [b"plain", b"committed", b"behind it"]


def test_a_range_that_ends_with_a_marker_or_holds_only_markers_can_be_read(
    headwater_broker: Broker, cluster: Cluster, topic: str
) -> None:
    Admin(cluster).create_topic(topic, partition_count=1)
    producer = transactional(headwater_broker)
    for _ in range(3):
        producer.begin_transaction()
        producer.produce(topic, b"aborted", partition=0)
        producer.flush()
        producer.abort_transaction()
    await_markers(cluster, topic)
    reader = batch(headwater_broker, {"subscribe": topic, "maxRecordsPerPartition": "1"})

    assert len(ranges(reader.partitions())) == 6
    assert rows(reader, reader.partitions()) == []


def test_records_removed_by_compaction_are_no_data_loss(headwater_broker: Broker, cluster: Cluster, topic: str) -> None:
    settings = {"cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0"}
    Admin(cluster).create_topic(topic, partition_count=1, settings=settings)
    for number in range(20):
        produce(cluster, topic, [b"%d" % number], keys=[b"%d" % (number % 2)], times_ms=[number * 60_000])
    headwater_broker.call(headwater_broker.node.broker.housekeeping.compact())

    found = read(headwater_broker, {"subscribe": topic, "maxRecordsPerPartition": "4"})

    assert values(found)[-2:] == numbered(2, 18)
    assert len(found) < 5, "it was compacted"
    offsets = [row["offset"] for row in found]
    assert [row["value"] for row in found] == [b"%d" % offset for offset in offsets]
