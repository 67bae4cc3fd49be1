"""Requests about share groups and schedules that are well formed and name what exists, but whose numbers, receipts and
order make no sense: each is answered or refused, nothing breaks, and the state stays consistent."""

from contextlib import suppress
from random import Random
from typing import Any
from uuid import UUID

import pytest

from headwater.coordination.shares.terms import DeliveryState
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.records import Record
from headwater.protocol.messages.schedule.alter_scheduled_records import (
    AlterScheduledRecordsRequest,
    AlterScheduledRecordsResponse,
)
from headwater.protocol.messages.schedule.list_scheduled_records import (
    ListScheduledRecordsRequest,
    ListScheduledRecordsResponse,
    ScheduledName,
)
from headwater.protocol.messages.shares.peek_records import PeekRecordsRequest, PeekRecordsResponse
from headwater.protocol.messages.shares.receive_records import ReceiveRecordsRequest, ReceiveRecordsResponse
from headwater.protocol.messages.shares.settle_records import Settlement, SettleRecordsRequest, SettleRecordsResponse
from headwater.testing import Broker
from tests.support.broker.on_loop import on_loop
from tests.support.kafka.raw_client import RawClient, batch_of
from tests.support.kafka.raw_share_states import ShareStates
from tests.support.kafka.raw_shares import Member, configure
from tests.support.kafka.raw_shares import batches as acknowledgements

QUEUE, REMINDERS, GROUP = "orders", "reminders", "billing"
REQUESTS = 1500
INT64_MAX = (1 << 63) - 1
NUMBERS = (-INT64_MAX - 1, -2, -1, 0, 1, 2, 5, 19, 20, 100, 1 << 31, 1 << 62, INT64_MAX)
SMALL = (-(1 << 31), -2, -1, 0, 1, 2, 3, 9, 1000, (1 << 31) - 1)
DIRECTIVES = (
    "headwater-delay-ms",
    "headwater-deliver-at",
    "headwater-schedule-id",
    "headwater-ttl-ms",
    "headwater-priority",
)
VALUES = (b"", b"0", b"1", b"100", b"-1", b"9" * 16, b"9" * 17, b"\xff", b"x" * 300, b"1e3", None)
SETTINGS = {"share.coordinator.state.topic.num.partitions": "1", "group.share.min.record.lock.duration.ms": "1000"}


class Hostile:
    def __init__(self, client: RawClient, random: Random, topic_id: UUID) -> None:
        self.client = client
        self._random = random
        self._member = Member(client, GROUP, f"hostile-{random.random()}")
        self._member.topic_id = topic_id
        self._states = ShareStates(client, GROUP, topic_id)
        self._receipts = [""]
        self._member.beat(QUEUE)

    def act(self) -> None:
        getattr(self, self._random.choice(ACTIONS))()

    def _number(self) -> int:
        return self._random.choice((*NUMBERS, self._random.randrange(40)))

    def _small(self) -> int:
        return self._random.choice(SMALL)

    def _said(self) -> Any:
        types = [self._random.choice((-128, -1, 0, 1, 2, 3, 4, 5, 127)) for _ in range(self._random.randrange(4))]
        return [
            (self._number(), self._number(), self._random.choice((types, [1], [2], [3])))
            for _ in range(self._random.randrange(3))
        ]

    def fetch(self) -> None:
        epoch = self._random.choice((None, None, None, -1, 0, 1, self._small()))
        said = {self._random.choice((0, 0, -1, 7)): acknowledgements(*self._said())}
        options = {
            "max_bytes": self._small(),
            "min_bytes": self._small(),
            "share_acquire_mode": self._random.choice((0, 1, -5)),
        }
        self._member.ask(
            said if self._random.random() < 0.5 else None,
            epoch=epoch,
            wait_ms=self._random.choice((0, 5, -1)),
            records_max=self._small(),
            **(options if self._random.random() < 0.3 else {}),
        )

    def acknowledge(self) -> None:
        self._member.acknowledge(*self._said(), is_renew_ack=self._random.random() < 0.3)

    def receive(self) -> None:
        request = ReceiveRecordsRequest(
            group_id=GROUP,
            topics=[QUEUE] * self._random.randrange(3),
            max_records=self._random.choice((1, 5, self._small())),
            max_bytes=self._random.choice((1, 1000, self._small())),
            max_wait_ms=self._random.choice((0, 5, -1)),
        )
        told = self.client.ask(request, ReceiveRecordsResponse, 0)
        self._receipts += [each.receipt for each in told.records]

    def settle(self) -> None:
        receipt = self._random.choice(self._receipts)
        if receipt and self._random.random() < 0.3:
            at = self._random.randrange(len(receipt))
            receipt = receipt[:at] + self._random.choice("A_.\0é") + receipt[at + 1 :]
        said = Settlement(receipt=receipt, type=self._random.choice((-1, 0, 1, 2, 3, 4, 9)), duration_ms=self._small())
        settlements = [said] * self._random.randrange(3)
        self.client.ask(SettleRecordsRequest(group_id=GROUP, settlements=settlements), SettleRecordsResponse, 0)

    def peek(self) -> None:
        request = PeekRecordsRequest(group_id=GROUP, topics=[QUEUE], max_records=self._small())
        self.client.ask(request, PeekRecordsResponse, 0)

    def state(self) -> None:
        if self._random.random() < 0.02:
            self._states.delete()
            return
        self._states.read(self._small())
        self._states.summary(self._small())
        batch = (
            self._number(),
            self._number(),
            self._random.choice((-1, 0, 1, 2, 4, 9)),
            self._random.choice((-1, 0, 3)),
        )
        self._states.write(
            self._random.choice((0, self._small())), self._random.choice((-1, 0)), self._number(), [batch]
        )

    def produce(self) -> None:
        headers = tuple(
            (self._random.choice(DIRECTIVES), self._random.choice(VALUES)) for _ in range(self._random.randrange(4))
        )
        record = Record(0, 0, b"k", b"v", headers)
        self.client.produce(self._random.choice((QUEUE, REMINDERS)), bytes(batches.build([record])))

    def schedule(self) -> None:
        names = [
            ScheduledName(
                partition_index=self._small(),
                schedule_offset=self._number(),
                schedule_id=self._random.choice((None, "", "1", "x" * 300)),
            )
            for _ in range(self._random.randrange(3))
        ]
        listing = ListScheduledRecordsRequest(
            topic=REMINDERS,
            names=names if self._random.random() < 0.5 else None,
            after_partition=self._small(),
            after_offset=self._number(),
            limit=self._small(),
            with_contents=True,
        )
        self.client.ask(listing, ListScheduledRecordsResponse, 0)
        change = AlterScheduledRecordsRequest(
            topic=REMINDERS, change=self._random.randrange(4), due_ms=self._number(), names=names
        )
        self.client.ask(change, AlterScheduledRecordsResponse, 0)


ACTIONS = ("fetch", "fetch", "acknowledge", "receive", "settle", "peek", "state", "produce", "schedule")


@pytest.mark.parametrize("seed", [1, 2])
def test_senseless_requests_break_nothing(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    random = Random(seed)
    with Broker(SETTINGS) as broker:
        with RawClient(broker) as client:
            topic_id = client.create(QUEUE, headwater_ttl_enable="true", headwater_priority_enable="true")
            client.create(REMINDERS, headwater_delay_enable="true")
            configure(client, GROUP, share_auto_offset_reset="earliest", headwater_deadletterqueue_enable="true")
            client.produce(QUEUE, batch_of(*(b"%d" % each for each in range(20))))
        done = 0
        while done < REQUESTS:
            # A request that cannot be read ends its connection.
            with suppress(OSError, AssertionError), RawClient(broker) as client:
                hostile = Hostile(client, random, topic_id)
                while done < REQUESTS:
                    done += 1
                    hostile.act()
        assert broker.node.broker.measurements.replies_failed.value == 0
        assert on_loop(broker, lambda: _is_consistent(broker))
    faults = [each.getMessage() for each in caplog.records if each.exc_info and each.levelname == "ERROR"]
    assert faults == []


def _is_consistent(broker: Broker) -> bool:
    for machine in broker.node.broker.shares.machines():
        for share in machine.partitions.values():
            runs = [*share.runs]
            ends = [run.last + 1 for run in runs]
            assert [run.first for run in runs] == [share.runs.start, *ends[:-1]] if runs else True
            counts = dict.fromkeys(DeliveryState, 0)
            for run in runs:
                counts[run.state] += run.size
            assert counts[DeliveryState.AVAILABLE] == share.runs.available_count
            assert counts[DeliveryState.ACQUIRED] == share.runs.acquired_count
            assert counts[DeliveryState.WAITING] == share.runs.waiting_count
    return True
