"""Arrow rows written against a real broker: their topic, their partition and the content of the records."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from headwater.client.admin import Admin
from headwater.client.cluster import Cluster
from headwater.client.errors import ClientError, Refused, UnknownTopic
from headwater.errors import ErrorCode
from headwater.protocol.batches.compression import Codec
from headwater.protocol.partitioner import partition_for_key
from headwater.spark.arrow import HEADERS, TIMESTAMP
from headwater.spark.options.write_options import write_options
from headwater.spark.writes import row_encoder
from headwater.spark.writes.row_refused import RowRefused
from headwater.spark.writes.task_writer import write_task
from headwater.testing import Broker
from tests.support.spark.written import create, messages, values

PARTITIONS = 3
NOON = datetime(2024, 5, 6, 12, tzinfo=UTC)
LIMIT = 20_000


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"auto.create.topics.enable": "false"}) as running:
        yield running


def rows(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def write(broker: Broker, *batches: pa.RecordBatch, **given: str) -> None:
    """Write at once, without the staging and publishing that other tests cover."""
    options = {name.replace("_", "."): value for name, value in given.items()}
    options["bootstrap.servers"] = broker.bootstrap_servers
    write_task(iter(batches), write_options(options, is_streaming=False), None)


# -- topic and partition


def test_rows_go_to_the_topic_of_the_option_even_if_they_name_another(broker: Broker, topic: str) -> None:
    create(broker, topic)

    write(broker, rows(value=["a", "b"], topic=["elsewhere", "elsewhere"]), topic=topic)

    assert values(broker, topic) == ["a", "b"]


def test_rows_go_to_the_topics_in_their_topic_column(broker: Broker, topic: str) -> None:
    names = [f"{topic}-{number}" for number in range(3)]
    for name in names:
        create(broker, name)
    count = 300

    write(
        broker,
        rows(
            key=[str(number) for number in range(count)],
            value=[str(number) for number in range(count)],
            topic=[names[number % 3] for number in range(count)],
        ),
    )

    for index, name in enumerate(names):
        assert values(broker, name) == sorted(str(number) for number in range(count) if number % 3 == index)
        found = messages(broker, name)
        assert all(each.partition == partition_for_key(each.key or b"", PARTITIONS) for each in found)


def test_a_row_without_topic_is_refused(broker: Broker, topic: str) -> None:
    create(broker, topic)

    with pytest.raises(RowRefused, match="a row has no topic"):
        write(broker, rows(value=["a", "b"], topic=pa.array([topic, None])))


def test_keys_go_to_the_partitions_that_librdkafkas_murmur2_gives_them(broker: Broker, topic: str) -> None:
    create(broker, topic, 7)
    create(broker, f"{topic}-java", 7)
    keys = [b"", b"a", b"key", b"\x00\xff\x80", *(b"%d" % number for number in range(200)), b"long" * 1000]

    write(broker, rows(key=pa.array(keys), value=pa.array(keys)), topic=topic)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "partitioner": "murmur2_random"})
    for key in keys:
        producer.produce(f"{topic}-java", key, key=key)
    producer.flush()

    def placed(name: str) -> dict[bytes | None, int]:
        return {each.key: each.partition for each in messages(broker, name)}

    # librdkafka treats an empty key as no key.
    assert placed(topic) | {b"": 0} == placed(f"{topic}-java") | {b"": 0}


def test_few_rows_without_key_go_to_one_partition(broker: Broker, topic: str) -> None:
    create(broker, topic, 8)

    write(broker, rows(key=pa.nulls(500, pa.string()), value=[str(number) for number in range(500)]), topic=topic)

    found = messages(broker, topic)
    assert len(found) == 500
    assert {each.key for each in found} == {None}
    assert len({each.partition for each in found}) == 1


def test_many_rows_without_key_are_spread_over_partitions(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_encoder, "_GATHERED_BYTES_MAX", 1)
    create(broker, topic, 4)

    write(broker, *(rows(value=[str(number)]) for number in range(8)), topic=topic)

    assert sorted(each.partition for each in messages(broker, topic)) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_the_partition_column_takes_precedence_over_the_key(broker: Broker, topic: str) -> None:
    create(broker, topic)
    keyed = partition_for_key(b"k", PARTITIONS)
    other = (keyed + 1) % PARTITIONS

    write(
        broker,
        rows(key=["k", "k"], value=["keyed", "named"], partition=pa.array([None, other], pa.int32())),
        topic=topic,
    )

    assert {each.value: each.partition for each in messages(broker, topic)} == {b"keyed": keyed, b"named": other}


def test_the_partition_column_works_for_each_of_several_topics(broker: Broker, topic: str) -> None:
    names = [f"{topic}-a", f"{topic}-b"]
    for name in names:
        create(broker, name)

    write(broker, rows(value=["0", "1", "2", "3"], topic=names * 2, partition=pa.array([0, 1, 2, 0], pa.int32())))

    assert {each.value: each.partition for each in messages(broker, names[0])} == {b"0": 0, b"2": 2}
    assert {each.value: each.partition for each in messages(broker, names[1])} == {b"1": 1, b"3": 0}


@pytest.mark.parametrize("partition", [-1, PARTITIONS, 2**31 - 1])
def test_a_missing_partition_is_refused(broker: Broker, topic: str, partition: int) -> None:
    create(broker, topic)

    with pytest.raises(
        RowRefused, match=f"a row is for partition {partition} of '{topic}', which has partitions 0 to 2"
    ):
        write(broker, rows(value=["a", "b"], partition=pa.array([0, partition], pa.int32())), topic=topic)


def test_partitions_added_meanwhile_are_written_to(broker: Broker, topic: str) -> None:
    create(broker, topic, 1)
    write(broker, rows(value=["before"]), topic=topic)
    with Cluster(broker.bootstrap_servers) as cluster:
        Admin(cluster).add_partitions(topic, 4)

    write(broker, rows(value=["after"], partition=pa.array([3], pa.int32())), topic=topic)

    assert [(each.partition, each.value) for each in messages(broker, topic)] == [(0, b"before"), (3, b"after")]


def test_a_missing_topic_is_an_error(broker: Broker, topic: str) -> None:
    with pytest.raises(UnknownTopic, match=f"topic '{topic}' does not exist"):
        write(broker, rows(value=["a"]), topic=topic)


def test_a_missing_topic_is_created_if_the_broker_is_set_up_to(headwater_broker: Broker, topic: str) -> None:
    write(headwater_broker, rows(value=["a"]), topic=topic)

    assert values(headwater_broker, topic) == ["a"]


# -- content of records


def test_strings_and_bytes_are_written_as_they_are_and_null_stays_null(broker: Broker, topic: str) -> None:
    create(broker, topic, 1)

    write(
        broker,
        rows(key=pa.array(["ä", None, ""]), value=pa.array([None, b"\x00\xff", b""])),
        topic=topic,
    )
    write(broker, rows(key=pa.array([b"\xff", None, b""]), value=pa.array(["€", "", None])), topic=topic)

    assert [(each.key, each.value) for each in messages(broker, topic)] == [
        ("ä".encode(), None),
        (None, b"\x00\xff"),
        (b"", b""),
        (b"\xff", "€".encode()),
        (None, b""),
        (b"", None),
    ]


@pytest.mark.parametrize("kind", [pa.large_string(), pa.large_binary(), pa.string_view(), pa.binary_view()])
def test_other_arrow_string_types_give_the_same_records(broker: Broker, topic: str, kind: pa.DataType) -> None:
    create(broker, topic, 1)
    column = pa.array(["a", None, "c" * 100], kind)

    write(broker, rows(key=column, value=column), topic=topic)

    assert [(each.key, each.value) for each in messages(broker, topic)] == [
        (b"a", b"a"),
        (None, None),
        (b"c" * 100, b"c" * 100),
    ]


def test_only_the_slice_of_a_batch_is_written(broker: Broker, topic: str) -> None:
    create(broker, topic, 1)
    whole = rows(
        key=[None if number % 3 else str(number) for number in range(100)],
        value=[str(number) for number in range(100)],
        headers=pa.array([[("n", b"%d" % number)] * (number % 3) for number in range(100)], HEADERS),
        timestamp=pa.array([NOON + timedelta(seconds=number) for number in range(100)], TIMESTAMP),
        partition=pa.array([0 if number % 2 else None for number in range(100)], pa.int32()),
        topic=[topic] * 100,
    )

    write(broker, whole.slice(17, 40), whole.slice(90), includeTimestamp="true")

    chosen = [*range(17, 57), *range(90, 100)]
    assert [each[2:] for each in messages(broker, topic)] == [
        (
            None if number % 3 else b"%d" % number,
            b"%d" % number,
            (("n", b"%d" % number),) * (number % 3),
            milliseconds(NOON) + 1000 * number,
        )
        for number in chosen
    ]


def test_headers_keep_their_order_and_may_be_empty_null_or_repeated(broker: Broker, topic: str) -> None:
    create(broker, topic, 1)
    given: Sequence[Any] = [[("a", b"1"), ("a", b"2"), ("", None)], [], None, [("ü", b"")]]

    write(broker, rows(value=["0", "1", "2", "3"], headers=pa.array(given, HEADERS)), topic=topic)

    assert [each.headers for each in messages(broker, topic)] == [
        (("a", b"1"), ("a", b"2"), ("", None)),
        (),
        (),
        (("ü", b""),),
    ]


def test_headers_are_left_out_if_not_asked_for(broker: Broker, topic: str) -> None:
    create(broker, topic, 1)

    write(broker, rows(value=["a"], headers=pa.array([[("k", b"v")]], HEADERS)), topic=topic, includeHeaders="false")

    assert [each.headers for each in messages(broker, topic)] == [()]


@pytest.mark.parametrize("given", [[(None, b"v")], [None]])
def test_an_invalid_header_is_refused(broker: Broker, topic: str, given: Any) -> None:
    create(broker, topic, 1)

    with pytest.raises(RowRefused, match=r"a row has a header (that|whose key) is null"):
        write(broker, rows(value=["a"], headers=pa.array([given], HEADERS)), topic=topic)


def test_timestamps_are_written_only_if_asked_for_and_null_means_now(broker: Broker, topic: str) -> None:
    create(broker, topic, 1)
    times = pa.array([NOON, None, datetime(1970, 1, 1, tzinfo=UTC)], TIMESTAMP)
    before_ms = milliseconds(datetime.now(UTC))

    write(broker, rows(value=["0", "1", "2"], timestamp=times), topic=topic, includeTimestamp="true")
    write(broker, rows(value=["3"], timestamp=times.slice(0, 1)), topic=topic)

    given, null, epoch, unwanted = (each.timestamp_ms for each in messages(broker, topic))
    assert (given, epoch) == (milliseconds(NOON), 0)
    assert min(null, unwanted) >= before_ms


def test_a_time_before_1970_is_refused(broker: Broker, topic: str) -> None:
    create(broker, topic, 1)
    times = pa.array([NOON, datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)], TIMESTAMP)

    with pytest.raises(RowRefused, match=r"timestamp.*1969-12-31.*before 1970"):
        write(broker, rows(value=["a", "b"], timestamp=times), topic=topic, includeTimestamp="true")


# -- sizes


def test_rows_are_split_into_batches_and_stay_in_order(broker: Broker, topic: str) -> None:
    create(broker, topic)
    count = 60
    filler = "x" * 40_000

    write(
        broker,
        *(rows(key=["k"] * 10, value=[f"{first + n:03}{filler}" for n in range(10)]) for first in range(0, count, 10)),
        topic=topic,
    )

    assert [each.value for each in messages(broker, topic)] == [f"{n:03}{filler}".encode() for n in range(count)]


@pytest.mark.parametrize("codec", Codec)
def test_every_codec_is_read_back(broker: Broker, topic: str, codec: Codec) -> None:
    create(broker, topic)
    given = [f"row {number}" for number in range(1000)]

    write(broker, rows(value=given), topic=topic, compression_type=codec.name.lower())

    assert values(broker, topic) == sorted(given)


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement_is_written(broker: Broker, topic: str, acks: str) -> None:
    create(broker, topic)
    given = [f"row {number}" for number in range(1000)]

    write(broker, rows(value=given), topic=topic, acks=acks)
    # Unacknowledged records may still be in flight, but the connection keeps their order.
    write(broker, rows(value=["last"]), topic=topic, acks="all")

    assert values(broker, topic) == ["last", *sorted(given)]


def test_batches_too_large_for_the_topic_are_split(broker: Broker, topic: str) -> None:
    create(broker, topic, 1, max_message_bytes=str(LIMIT))
    given = [f"{number:03}" + "x" * 1000 for number in range(100)]

    write(broker, rows(value=given), topic=topic)

    assert values(broker, topic) == given


def test_a_row_that_is_too_large_for_the_topic_is_an_error_that_names_the_setting(broker: Broker, topic: str) -> None:
    create(broker, topic, 1, max_message_bytes=str(LIMIT))

    with pytest.raises(Refused, match=r"max\.message\.bytes") as refused:
        write(broker, rows(value=["x" * LIMIT]), topic=topic)

    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
    assert topic in str(refused.value)


def test_empty_batches_write_nothing(broker: Broker, topic: str) -> None:
    create(broker, topic)

    write(broker, rows(value=pa.array([], pa.string())), topic=topic)
    write(broker, topic=topic)

    assert values(broker, topic) == []


def test_an_unreachable_broker_is_an_error_at_once() -> None:
    options = write_options({"bootstrap.servers": "127.0.0.1:1", "topic": "t"}, is_streaming=False)

    with pytest.raises(ClientError, match=r"cannot reach 127\.0\.0\.1:1"):
        write_task(iter([rows(value=["a"])]), options, None)


def milliseconds(time: datetime) -> int:
    return int(time.timestamp() * 1000)
