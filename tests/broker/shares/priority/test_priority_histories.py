"""Random lives of a queue with priorities against a plain model of every record, and how long its lanes wait (I18).

Members acquire, accept, release and vanish; time passes, brokers restart and crash, segments are rolled and deleted. In
the end every record is done with, and each was with one member at a time. While anybody asks for records, no lane with
available ones waits for longer than its bound.
"""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.broker.broker import Broker
from headwater.broker.shares.priority.lane_heads import LaneHeads
from headwater.clock import ManualClock
from headwater.coordination.shares.lane_schedule import LANES, LaneSchedule
from headwater.coordination.shares.terms import DeliveryState
from tests.broker.shares.dead_letter_cases import configure
from tests.broker.shares.priority.priority_cases import lanes_in, put, queue
from tests.broker.shares.share_commands import ACCEPT, ANN, BOB, RELEASE, SETTINGS, loaded
from tests.support.broker.embedded_broker import NOW_MS, crash, run, start

BOOST_MS = 30_000
STEPS = 150


class LaneWaits:
    """The checker of I18. A lane waits while it has available records and gives none. Once its wait reaches the bound,
    it is among the lanes of the next five records that members are given: four other lanes may wait for as long."""

    def __init__(self) -> None:
        self._since_ms: dict[int, int] = {}
        self._passed_over: dict[int, int] = {}

    def asked(self, available: set[int], given: list[int], now_ms: int) -> None:
        """A member asked for records: which lanes had some, and the lanes of those that it was given."""
        for lane in LANES:
            if lane not in available or lane in given:
                self._since_ms.pop(lane, None)
                self._passed_over.pop(lane, None)
                continue
            since_ms = self._since_ms.setdefault(lane, now_ms)
            if now_ms - since_ms >= BOOST_MS and given:
                self._passed_over[lane] = self._passed_over.get(lane, 0) + len(given)
                assert self._passed_over[lane] < len(LANES), f"lane {lane} has waited since {now_ms - since_ms} ms"


class PriorityLife:
    def __init__(self, root: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.root = root
        self.clock = ManualClock(NOW_MS)
        self.waits = LaneWaits()
        self.lanes: dict[int, int] = {}
        self.held: dict[int, tuple[bytes, int]] = {}
        self.done: set[int] = set()
        self.deliveries: dict[int, int] = {}

    async def begin(self) -> None:
        broker = start(self.root, SETTINGS, clock=self.clock)
        self.jobs = await queue(broker, segment_bytes="2500")
        # A crashed broker is still in this process: no wait may end by its timers, which go by the real time.
        backoff_ms = self.chance.choice(["0", "25000"])
        limits = {"share_delivery_count_limit": "10", "headwater_share_priority_ranges_max": "100"}
        await configure(broker, **limits, headwater_share_retry_backoff_ms=backoff_ms)

    @property
    def broker(self) -> Broker:
        return self.jobs.broker

    def available(self) -> set[int]:
        """The lanes of records that may be acquired, by the state of the group and the records themselves."""
        share = self.broker.shares.find(self.jobs.id)
        if share is None:
            return set()
        found: set[int] = set()
        for offset, lane in self.lanes.items():
            run_of = share.runs.at(offset)
            if offset >= share.runs.start and (run_of is None or run_of.state is DeliveryState.AVAILABLE):
                found.add(lane)
        return found

    async def produce(self) -> None:
        lanes = [self.chance.choice([0, 0, 0, 1, 2, 3, 4]) for _ in range(self.chance.randint(1, 30))]
        await put(self.jobs, *lanes, codec=self.chance.choice([0, 0, 3]))
        self.lanes = lanes_in(self.jobs)

    async def ask(self) -> None:
        member = self.chance.choice([ANN, BOB])
        before = self.available()
        ranges = await self.jobs.fetched(member, records_max=self.chance.choice([1, 1, 5, 40]), wait_ms=0)
        offsets = [offset for first, last, _ in ranges for offset in range(first, last + 1)]
        assert bool(offsets) == bool(before), f"{before} were available, and {offsets} are given"
        self.waits.asked(before, [self.lanes[offset] for offset in offsets], self.clock.monotonic_ms())
        deadline_ms = self.clock.monotonic_ms() + 30_000
        for first, last, count in ranges:
            for offset in range(first, last + 1):
                assert offset not in self.done, f"{offset} was done with"
                assert offset not in self.held, f"{offset} is held"
                assert count == self.deliveries.get(offset, 0) + 1
                self.held[offset] = member.encode(), deadline_ms
                self.deliveries[offset] = count

    async def settle(self) -> None:
        for offset, (member, _) in self.chance.sample(sorted(self.held.items()), min(len(self.held), 15)):
            kind = self.chance.choice([ACCEPT, ACCEPT, ACCEPT, RELEASE])
            await self.jobs.acknowledge(offset, offset, kind, type(ANN)(member.decode()))
            del self.held[offset]
            if kind is ACCEPT:
                self.done.add(offset)

    async def vanish(self) -> None:
        self.broker.shares.release_all([self.jobs.id], BOB)
        self.held = {offset: held for offset, held in self.held.items() if held[0] != BOB.encode()}

    async def pass_time(self) -> None:
        self.clock.advance(self.chance.choice([1, 600, 8000, 31_000]))
        for shard in self.broker.shares.shards:
            shard.wake()
        now_ms = self.clock.monotonic_ms()
        self.held = {offset: held for offset, held in self.held.items() if held[1] > now_ms}

    async def restart(self) -> None:
        if self.broker.shares.find(self.jobs.id) is None:
            return
        await (self.broker.stop() if self.chance.random() < 0.5 else crash(self.broker))
        broker = start(self.root, SETTINGS, clock=self.clock)
        self.jobs = await loaded(broker, self.jobs)
        for offset in self.held:
            self.deliveries[offset] -= 1
        self.held.clear()
        self.waits = LaneWaits()

    async def delete_head(self) -> None:
        partition = self.jobs.partition
        share = self.broker.shares.find(self.jobs.id)
        start_offset = partition.start_offset if share is None else min(share.runs.start, partition.high_watermark)
        await run(self.broker.delete_records("jobs", 0, start_offset))
        self.lanes = lanes_in(self.jobs)

    async def live(self) -> None:
        await self.begin()
        steps: list[Callable[[], object]] = [
            *[self.produce] * 2,
            *[self.ask] * 6,
            *[self.settle] * 3,
            *[self.pass_time] * 2,
            self.vanish,
        ]
        for _ in range(STEPS):
            rare = self.chance.random()
            step = self.restart if rare < 0.02 else self.delete_head if rare < 0.04 else self.chance.choice(steps)
            await step()  # pyright: ignore[reportGeneralTypeIssues]
        await self.finish()

    async def finish(self) -> None:
        """One good member is left."""
        self.clock.advance(40_000)
        self.broker.shares.release_all([self.jobs.id], ANN)
        self.broker.shares.release_all([self.jobs.id], BOB)
        self.clock.advance(70_000)
        for shard in self.broker.shares.shards:
            shard.wake()
        while ranges := await self.jobs.fetched(wait_ms=0):
            for first, last, _ in ranges:
                self.done.update(range(first, last + 1))
                await self.jobs.acknowledge(first, last, ACCEPT)
        exhausted = {offset for offset, count in self.deliveries.items() if count >= 10}
        assert set(self.lanes) <= self.done | exhausted, "each record is done with"
        share = self.broker.shares.find(self.jobs.id)
        assert share is not None
        assert share.runs.unfinished_count == 0, "nothing holds the start back"


async def lives(root: Path, count: int) -> None:
    for seed in range(count):
        await lived(root / str(seed), seed)


async def lived(root: Path, seed: int) -> None:
    life = PriorityLife(root, seed)
    try:
        await life.live()
    finally:
        await life.broker.stop()


@pytest.mark.parametrize("seed", range(6))
async def test_every_record_is_given_once_at_a_time_and_no_lane_waits_too_long(tmp_path: Path, seed: int) -> None:
    await lived(tmp_path, seed)


def serve_no_lane_that_waits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LaneSchedule, "_starving", lambda *_: None)


def begin_to_wait_with_every_question(patch: pytest.MonkeyPatch) -> None:
    def observe(self: LaneSchedule, has_records: list[bool], now_ms: int) -> None:
        self._waiting_since_ms = [now_ms if each else None for each in has_records]

    patch.setattr(LaneSchedule, "observe", observe)


def serve_the_urgent_lane_alone(patch: pytest.MonkeyPatch) -> None:
    """Strict priority, and a boost that looks at the most urgent lane."""
    starving = LaneSchedule._starving

    def wrong(self: LaneSchedule, has_records: list[bool], limits: object, now_ms: int) -> int | None:
        found = starving(self, has_records, limits, now_ms)  # pyright: ignore[reportArgumentType]
        return None if found is None else has_records.index(True)

    patch.setattr(LaneSchedule, "_starving", wrong)


def forget_what_came_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LaneHeads, "put_back", lambda *_: None)


def forget_that_it_was_taken(patch: pytest.MonkeyPatch) -> None:
    """A range that came back twice is chosen twice."""
    patch.setattr(LaneHeads, "take", lambda self, lane, last: self._cursors.__setitem__(lane, last + 2))


@pytest.mark.slow
@pytest.mark.parametrize(
    "plant",
    [
        serve_no_lane_that_waits,
        begin_to_wait_with_every_question,
        serve_the_urgent_lane_alone,
        forget_what_came_back,
        forget_that_it_was_taken,
    ],
    ids=lambda plant: plant.__name__,
)
async def test_a_planted_bug_is_found(
    tmp_path: Path, plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        await lives(tmp_path, 30)
