"""A share group whose broker is killed again and again, and whose members come and go, with histories that are checked:
each record is accepted by exactly one member, none is held by two, and none is delivered above the limit (I14)."""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from headwater.errors import ErrorCode
from tests.support.broker.processes import BrokerProcess
from tests.support.kafka.raw_client import RawClient, batch_of
from tests.support.kafka.raw_shares import ACCEPT, FINAL, RELEASE, Member, acquired, configure, find, offsets_of

pytestmark = pytest.mark.slow

TOPIC, GROUP = "orders", "billing"
BATCHES, BATCH = 60, 50
TOTAL = BATCHES * BATCH
MEMBERS = 3
KILLS = 6
LIMIT = 5
LOCK_MS = 1500
DEADLINE_S = 120
SETTINGS = {
    "num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.snapshot.update.records.per.snapshot": "20",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.min.session.timeout.ms": "1000",
}


class History:
    """What members saw, in the order in which they knew it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Acknowledgements that were confirmed, by offset.
        self.accepted: Counter[int] = Counter()
        # Accepted, with an answer that never came: it may count or not.
        self.in_doubt: set[int] = set()
        self.delivered: defaultdict[int, list[int]] = defaultdict(list)
        self.violations: list[str] = []

    def gave(self, ranges: list[tuple[int, int, int]]) -> None:
        with self._lock:
            for first, last, count in ranges:
                for offset in range(first, last + 1):
                    self.delivered[offset].append(count)
                    if count > LIMIT:
                        self.violations.append(f"{offset} was delivered for the {count}th time")
                    if self.accepted[offset]:
                        self.violations.append(f"{offset} was delivered after it was accepted")

    def accept(self, first: int, last: int, *, is_confirmed: bool) -> None:
        with self._lock:
            for offset in range(first, last + 1):
                if is_confirmed:
                    self.accepted[offset] += 1
                else:
                    self.in_doubt.add(offset)

    @property
    def done_count(self) -> int:
        with self._lock:
            return len(self.accepted.keys() | self.in_doubt)


class Worker(threading.Thread):
    """A member that accepts most of what it gets, releases some, forgets some, and comes back after every failure."""

    def __init__(self, broker: BrokerProcess, topic_id: UUID, history: History, number: int, stop: threading.Event):
        super().__init__(name=f"member-{number}")
        self._broker = broker
        self._topic_id = topic_id
        self._history = history
        self._random = Random(number)
        self._stop_event = stop

    def run(self) -> None:
        while not self._stop_event.is_set():
            with suppress(OSError, _Lost), RawClient(self._broker) as client:
                self._live(client)
            time.sleep(0.05)

    def _live(self, client: RawClient) -> None:
        find(client, GROUP)
        member = Member(client, GROUP)
        member.topic_id = self._topic_id
        if member.beat(TOPIC).error_code != ErrorCode.NONE:
            raise _Lost
        for _ in range(self._random.randint(5, 40)):
            if self._stop_event.is_set():
                break
            response = member.ask(wait_ms=200, records_max=self._random.choice([1, 20, 200]))
            if response.error_code != ErrorCode.NONE:
                raise _Lost
            if any(each.error_code for topic in response.responses for each in topic.partitions):
                continue
            ranges = acquired(response)
            self._history.gave(ranges)
            for first, last, _count in ranges:
                self._settle(member, first, last)
        member.acknowledge(epoch=FINAL)
        member.beat(epoch=-1)

    def _settle(self, member: Member, first: int, last: int) -> None:
        match self._random.random():
            case chance if chance < 0.1:
                member.acknowledge((first, last, RELEASE))
            case chance if chance < 0.12:
                # Forgotten: its lock runs out.
                return
            case _:
                try:
                    code = member.settle((first, last, ACCEPT))
                except OSError:
                    self._history.accept(first, last, is_confirmed=False)
                    raise
                except AssertionError:
                    raise _Lost from None
                if code == ErrorCode.NONE:
                    self._history.accept(first, last, is_confirmed=True)
                elif code != ErrorCode.INVALID_RECORD_STATE:
                    self._history.accept(first, last, is_confirmed=False)


class _Lost(Exception):
    """The broker said that the member is not known, or not now."""


@contextmanager
def workers(broker: BrokerProcess, topic_id: UUID, history: History) -> Generator[None]:
    stop = threading.Event()
    running = [Worker(broker, topic_id, history, number, stop) for number in range(MEMBERS)]
    for worker in running:
        worker.start()
    try:
        yield
    finally:
        stop.set()
        for worker in running:
            worker.join()


def wait_until(history: History, count: int) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while history.done_count < count:
        assert time.monotonic() < deadline, f"{history.done_count} of {TOTAL} records are done with"
        time.sleep(0.01)


def test_each_record_is_accepted_once_over_kills_of_the_broker(tmp_path: Path) -> None:
    history = History()
    with BrokerProcess(tmp_path / "data", SETTINGS) as broker:
        with RawClient(broker) as client:
            topic_id = client.create(TOPIC)
            configure(
                client,
                GROUP,
                share_auto_offset_reset="earliest",
                share_record_lock_duration_ms=str(LOCK_MS),
                share_delivery_count_limit=str(LIMIT),
            )
            for number in range(BATCHES):
                values = [b"%d" % (number * BATCH + each) for each in range(BATCH)]
                assert client.produce(TOPIC, batch_of(*values)).error_code == ErrorCode.NONE
        with workers(broker, topic_id, history):
            for kill in range(1, KILLS + 1):
                wait_until(history, kill * TOTAL // (KILLS + 2))
                broker.kill()
                broker.start()
            deadline = time.monotonic() + DEADLINE_S
            with RawClient(broker) as client:
                while offsets_of(client, GROUP).get((TOPIC, 0), (0, TOTAL))[1]:
                    assert time.monotonic() < deadline, "some records are never done with"
                    time.sleep(0.1)
    assert history.violations == []
    twice = {offset for offset, count in history.accepted.items() if count > 1}
    assert twice == set()
    exhausted = {offset for offset, counts in history.delivered.items() if max(counts) == LIMIT}
    done = history.accepted.keys() | history.in_doubt | exhausted
    assert done == set(range(TOTAL)), "each record was accepted, or delivered as often as it may be"
