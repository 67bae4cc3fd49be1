"""Wall time that jumps under a running broker. Sessions, transactions and waits go by monotonic time and do not notice.
Retention goes by wall time, as in Kafka: a clock that is a day ahead makes everything a day older, and what it deletes
then stays deleted."""

import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer

from headwater.clock import ManualClock, SystemClock
from headwater.errors import ErrorCode
from headwater.protocol.messages.groups.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from headwater.protocol.messages.records.fetch import FetchResponse
from headwater.testing import Broker
from tests.support.broker.embedded_broker import NOW_MS, batch_of, create, produce, running
from tests.support.kafka.raw_client import RawClient, fetch_request
from tests.support.kafka.raw_groups import Place, commit, committed, find, heartbeat, join, sync
from tests.support.kafka.topic_contents import read, transactional_producer, wait_until_stable

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
JUMPS_MS = (HOUR_MS, -HOUR_MS, DAY_MS, -DAY_MS, -DAY_MS, DAY_MS)
SESSION_TIMEOUT_MS = TRANSACTION_TIMEOUT_MS = 1000
WAIT_MS = 100
# Long enough for a loaded machine; a test that waits this long has failed.
DEADLINE_S = 60


class JumpingClock(SystemClock):
    """A clock whose wall time the test can shift; its monotonic time is unaffected."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms

    def strobe(self) -> Iterator[int]:
        """Shift the clock at each step for twice the session time-out, and set it right at the end."""
        deadline = time.monotonic() + 2 * SESSION_TIMEOUT_MS / 1000
        for jump_ms in cycle(JUMPS_MS):
            if time.monotonic() > deadline and not self.ahead_ms:
                return
            self.ahead_ms += jump_ms
            yield self.ahead_ms


@pytest.fixture
def clock() -> JumpingClock:
    return JumpingClock()


@pytest.fixture
def broker(clock: JumpingClock) -> Iterator[Broker]:
    with Broker(clock=clock) as broker:
        yield broker


def states(client: RawClient, group: str) -> str:
    return client.ask(DescribeGroupsRequest(groups=[group]), DescribeGroupsResponse, 5).groups[0].group_state


def join_alone(client: RawClient, group: str) -> Place:
    find(client, group)
    joined = join(client, group, session_timeout_ms=SESSION_TIMEOUT_MS)
    place = Place(joined.member_id, joined.generation_id)
    assert sync(client, group, place, {place.member_id: b"all"}).error_code == 0
    return place


def test_a_member_that_sends_heartbeats_stays_while_the_clock_strobes(broker: Broker, clock: JumpingClock) -> None:
    with RawClient(broker) as client:
        place = join_alone(client, "group")
        for _ in clock.strobe():
            assert heartbeat(client, "group", place) == 0
        assert states(client, "group") == "Stable"


@pytest.mark.parametrize("jump_ms", [-DAY_MS, -HOUR_MS, HOUR_MS, DAY_MS])
def test_a_silent_member_is_removed_at_its_session_time_out_whatever_the_wall_clock_says(
    broker: Broker, clock: JumpingClock, jump_ms: int
) -> None:
    with RawClient(broker) as client:
        began = time.monotonic()
        place = join_alone(client, "group")
        clock.ahead_ms = jump_ms
        while states(client, "group") == "Stable":
            assert time.monotonic() < began + DEADLINE_S, "it is still there"
        assert time.monotonic() - began >= SESSION_TIMEOUT_MS / 1000, "it was sent away too early"
        assert heartbeat(client, "group", place) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_transaction_stays_open_while_the_clock_strobes(broker: Broker, clock: JumpingClock) -> None:
    with RawClient(broker) as client:
        client.create("topic", message_timestamp_type="LogAppendTime")
    producer = transactional_producer(broker, "id", transaction_timeout_ms=DEADLINE_S * 1000)
    producer.begin_transaction()
    written = 0
    for _ in clock.strobe():
        producer.produce("topic", b"%d" % written, key=b"key")
        producer.flush()
        written += 1
    producer.commit_transaction()

    wait_until_stable(broker, "topic")
    assert [int(copy.value) for copy in read(broker, "topic", 1)[0]] == list(range(written))


@pytest.mark.parametrize("jump_ms", [-DAY_MS, -HOUR_MS, HOUR_MS, DAY_MS])
def test_an_abandoned_transaction_is_aborted_at_its_time_out_whatever_the_wall_clock_says(
    broker: Broker, clock: JumpingClock, jump_ms: int
) -> None:
    began = time.monotonic()
    forgetful = leave_open(broker)
    clock.ahead_ms = jump_ms
    wait_until_stable(broker, "topic")

    assert time.monotonic() - began >= TRANSACTION_TIMEOUT_MS / 1000, "it was aborted too early"
    with pytest.raises(KafkaException):
        forgetful.commit_transaction()


@pytest.mark.parametrize("jump_ms", [-DAY_MS, DAY_MS])
def test_a_transaction_outlives_a_restart_by_at_most_its_time_out_whatever_the_wall_clock_says(
    tmp_path: Path, clock: JumpingClock, jump_ms: int
) -> None:
    """Monotonic time starts again with each process, so only wall time tells how long a transaction has been open. A
    clock set ahead ends the transaction at once; a clock set back gives it its whole time-out again."""
    with Broker(data_directory=tmp_path, clock=clock) as broker:
        _ = leave_open(broker)
    clock.ahead_ms = jump_ms
    with Broker(data_directory=tmp_path, clock=clock) as broker:
        wait_until_stable(broker, "topic")


def leave_open(broker: Broker) -> Producer:
    with RawClient(broker) as client:
        client.create("topic")
    producer = transactional_producer(broker, "forgetful", transaction_timeout_ms=TRANSACTION_TIMEOUT_MS)
    producer.begin_transaction()
    producer.produce("topic", b"forgotten")
    producer.flush()
    return producer


def test_a_waiting_fetch_is_answered_at_its_time_out_whatever_the_wall_clock_says(
    broker: Broker, clock: JumpingClock
) -> None:
    with RawClient(broker) as client:
        client.create("topic")
        for jump_ms in JUMPS_MS:
            began = time.monotonic()
            client.send(fetch_request({"topic": {0: 0}}, wait_ms=WAIT_MS), 12)
            clock.ahead_ms += jump_ms
            _, answer = client.receive(FetchResponse, 12)
            assert answer.responses[0].partitions[0].records in {b"", None}
            assert time.monotonic() - began >= WAIT_MS / 1000, "it did not wait"


def test_an_idempotent_producer_goes_on_while_the_clock_strobes(broker: Broker, clock: JumpingClock) -> None:
    """With a clock a day ahead the partitions forget the producer, which need not notice."""
    with RawClient(broker) as client:
        client.create("topic", message_timestamp_type="LogAppendTime")
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
        written = 0
        for _ in clock.strobe():
            producer.produce("topic", b"%d" % written)
            assert producer.flush(DEADLINE_S) == 0
            written += 1
            broker.call(broker.node.broker.housekeeping.forget_producers())
        assert [int(record.value or b"") for record in client.records("topic")] == list(range(written))


def test_committed_offsets_do_not_expire_with_a_clock_a_day_ahead(broker: Broker, clock: JumpingClock) -> None:
    with RawClient(broker) as client:
        client.create("topic")
        find(client, "group")
        assert commit(client, "group", Place(), "topic", 7) == 0
        for jump_ms in JUMPS_MS:
            clock.ahead_ms += jump_ms
            broker.call(broker.node.broker.groups.expire())
            assert committed(client, "group", "topic").committed_offset == 7


def test_with_a_clock_set_back_timestamps_of_clients_are_in_the_future(broker: Broker, clock: JumpingClock) -> None:
    """Where create time counts they are refused, as by Kafka (message.timestamp.after.max.ms)."""
    now_ms = clock.now_ms()
    with RawClient(broker) as client:
        client.create("theirs")
        client.create("ours", message_timestamp_type="LogAppendTime")
        clock.ahead_ms = -DAY_MS
        sent = batch_of(b"value", timestamp=now_ms)
        assert client.produce("theirs", sent).error_code == ErrorCode.INVALID_TIMESTAMP
        assert client.produce("ours", sent).error_code == 0
        clock.ahead_ms = 0
        assert client.produce("theirs", sent).error_code == 0


async def test_a_clock_a_day_ahead_expires_records_a_day_early_and_set_back_no_more(tmp_path: Path) -> None:
    manual = ManualClock(NOW_MS)
    async with running(tmp_path, clock=manual) as broker:
        partition = await create(broker, "t", retention_ms=str(12 * HOUR_MS), message_timestamp_type="LogAppendTime")

        async def append() -> None:
            await produce(broker, partition, batch_of(b"value", timestamp=manual.now_ms()))

        await append()
        manual.jump(HOUR_MS)
        await broker.housekeeping.retain()
        assert (partition.start_offset, partition.high_watermark) == (0, 1)

        manual.jump(DAY_MS)
        await broker.housekeeping.retain()
        assert (partition.start_offset, partition.high_watermark) == (1, 1), "older than retention by that clock"

        await append()
        manual.jump(-DAY_MS)
        await append()
        for _ in range(2):
            # The record stamped a day ahead also keeps those behind it until that day and their retention have passed.
            await broker.housekeeping.retain()
            assert (partition.start_offset, partition.high_watermark) == (1, 3)
            manual.advance(DAY_MS)
        await broker.housekeeping.retain()
        assert (partition.start_offset, partition.high_watermark) == (3, 3)
