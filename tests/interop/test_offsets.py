"""Every client finds its place in the log by offset and by time."""

from collections.abc import Callable

import pytest

from tests.interop.clients.confluent import Confluent
from tests.interop.exchange import Compression, Connect, FromOffset, FromTime, Position, Record, RecordClient

pytestmark = pytest.mark.interop

each_client = pytest.mark.parametrize("client", ["confluent", "kcat", "java", "franz"], indirect=True)

FIRST_MS, STEP_MS = 1_700_000_000_000, 1000
COUNT = 300
# One record carries a later time than all that follow it.
LATEST_OFFSET, LATEST_MS = 250, FIRST_MS + 2 * COUNT * STEP_MS


def time_of(offset: int) -> int:
    return LATEST_MS if offset == LATEST_OFFSET else FIRST_MS + offset * STEP_MS


@pytest.fixture(scope="session", params=["none", "zstd"])
def timed(request: pytest.FixtureRequest, confluent: Confluent, new_topic: Callable[[str], str]) -> str:
    """A topic of several segments, whose records lie a second apart."""
    compression: Compression = request.param
    topic = new_topic(f"timed-{compression}")
    configs = {"retention.ms": "-1", "segment.bytes": "16384", "index.interval.bytes": "1024"}
    confluent.create_topic(topic, configs=configs)
    records = [Record(None, b"%1000d" % offset, timestamp_ms=time_of(offset)) for offset in range(COUNT)]
    for first in range(0, COUNT, 10):
        confluent.produce(topic, records[first : first + 10], compression=compression, acks="1")
    return topic


@each_client
def test_both_ends_are_found(client: RecordClient, timed: str) -> None:
    assert client.offset(timed, "earliest").offset == 0
    assert client.offset(timed, "latest").offset == COUNT


@each_client
@pytest.mark.parametrize(
    ("time_ms", "offset"),
    [
        (FIRST_MS - 1, 0),
        (FIRST_MS, 0),
        (FIRST_MS + 1, 1),
        (FIRST_MS + 123 * STEP_MS, 123),
        (FIRST_MS + 123 * STEP_MS - 1, 123),
        # The first record at or after a time is the one with the late time, although later ones are nearer.
        (FIRST_MS + LATEST_OFFSET * STEP_MS + 1, LATEST_OFFSET),
        (LATEST_MS, LATEST_OFFSET),
    ],
)
def test_the_first_record_at_or_after_a_time_is_found(
    client: RecordClient, timed: str, time_ms: int, offset: int
) -> None:
    found = client.offset(timed, time_ms)

    assert found.offset == offset
    assert found.timestamp_ms in (time_of(offset), None)


@pytest.mark.parametrize(
    ("client", "offset"),
    # franz-go's administrator gives the end of the log in place of nothing.
    [("confluent", -1), ("kcat", -1), ("java", -1), ("franz", COUNT)],
    indirect=["client"],
)
def test_no_record_is_found_after_the_latest_time(client: RecordClient, timed: str, offset: int) -> None:
    assert client.offset(timed, LATEST_MS + 1).offset == offset


@pytest.mark.parametrize("client", ["confluent", "java", "franz"], indirect=True)
def test_the_record_with_the_latest_time_is_found(client: RecordClient, timed: str) -> None:
    assert client.offset(timed, "maxTimestamp") == Position(LATEST_OFFSET, LATEST_MS)


@each_client
@pytest.mark.parametrize("offset", [0, 7, 100, COUNT - 1])
def test_reading_starts_at_an_offset(client: RecordClient, timed: str, offset: int) -> None:
    read = client.consume(timed, 1, FromOffset(offset))

    assert next(iter(read)) == offset, "also when it lies inside a batch"
    assert read[offset].value == b"%1000d" % offset


@each_client
def test_reading_starts_at_a_time(client: RecordClient, timed: str) -> None:
    read = client.consume(timed, 3, FromTime(FIRST_MS + 199 * STEP_MS + 1))

    assert list(read)[:3] == [200, 201, 202]


@each_client
def test_reading_goes_through_all_segments_without_a_gap(client: RecordClient, timed: str) -> None:
    read = client.consume(timed, COUNT)

    assert {offset: (record.value, record.timestamp_ms) for offset, record in read.items()} == {
        offset: (b"%1000d" % offset, time_of(offset)) for offset in range(COUNT)
    }


@each_client
def test_a_time_before_deleted_records_leads_to_the_start_of_the_log(
    client: RecordClient, confluent: Confluent, topic: str
) -> None:
    confluent.create_topic(topic, configs={"retention.ms": "-1"})
    confluent.produce(topic, [Record(None, b"v", timestamp_ms=time_of(offset)) for offset in range(10)])
    confluent.delete_records(topic, before=6)

    assert client.offset(topic, FIRST_MS).offset == 6
    assert list(client.consume(topic, 4, FromTime(FIRST_MS))) == [6, 7, 8, 9]


@pytest.mark.parametrize("writer", ["confluent", "java", "franz"])
def test_a_topic_with_log_append_time_replaces_the_time_of_the_client(
    connect: Connect, confluent: Confluent, topic: str, writer: str
) -> None:
    confluent.create_topic(topic, configs={"message.timestamp.type": "LogAppendTime"})

    connect(writer).produce(topic, [Record(b"k", b"v", timestamp_ms=FIRST_MS)] * 2, compression="gzip")

    read = connect(writer).consume(topic, 2)
    assert read == confluent.consume(topic, 2)
    assert all((record.timestamp_ms or 0) > FIRST_MS for record in read.values())
