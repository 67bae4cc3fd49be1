"""Share groups, dead letters and delayed records on a disk that loses power: a life of random operations, and what must
be true of it after a crash at any step."""

import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from headwater.broker.broker import Broker
from headwater.broker.partition import Partition
from headwater.broker.schedule.administration import Change, RecordName
from headwater.broker.shares import prune as prune_module
from headwater.broker.shares.prune import prune
from headwater.clock import ManualClock
from headwater.coordination.shares.commands import Acknowledgement, Acquire, LogBatch
from headwater.coordination.shares.share_partition import SharePartition
from headwater.coordination.shares.terms import AcknowledgeType, SharePartitionId
from headwater.errors import HeadwaterError
from headwater.ids import GroupId, MemberId
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches import dead_letter_headers
from tests.faults.power_loss.history import Span
from tests.faults.power_loss.recording import RecordingDisk, Step
from tests.faults.power_loss.states import LOSSES, Loss, after_crash
from tests.support.broker.embedded_broker import NOW_MS, batch_of, produce, readable, run, start
from tests.support.broker.schedules import batch_of as batch_of_records
from tests.support.broker.schedules import create_delaying, delayed, kill, settle, until

SETTINGS = {
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.segment.bytes": "2000",
    "share.coordinator.snapshot.update.records.per.snapshot": "5",
    "headwater.schedule.partitions": "1",
    "headwater.schedule.segment.bytes": "2000",
    "log.cleaner.min.cleanable.ratio": "0",
    "log.cleaner.delete.retention.ms": "0",
}
GROUP, MEMBER = GroupId("billing"), MemberId("ann")
ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
PRODUCER_ID = 7
TWICE_SHARE = 0.2
LONG_MS = 10_000_000


@dataclass
class Settled:
    kind: AcknowledgeType
    span: Span


@dataclass
class Scheduled:
    due_ms: int
    span: Span
    cancelled: Span | None = None


@dataclass
class QueueHistory:
    # Records of the queue, and what was said of them for good, by offset.
    records: dict[int, Span] = field(default_factory=dict[int, Span])
    settled: dict[int, Settled] = field(default_factory=dict[int, Settled])
    scheduled: dict[bytes, Scheduled] = field(default_factory=dict[bytes, Scheduled])
    # The time of day from a step on.
    clock: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    def now_ms(self, step: int) -> int:
        return max((ms for since, ms in self.clock if since < step), default=NOW_MS)


class QueueLife:
    def __init__(self, root: Path, seed: int, disk_type: type[RecordingDisk] = RecordingDisk) -> None:
        self.history = QueueHistory()
        self.disk = disk_type(root)
        self._root = root
        self._chance = random.Random(seed)
        self._clock = ManualClock(NOW_MS)
        self._sequence = 0
        self._value_count = 0
        self.broker: Broker = start(root, SETTINGS, clock=self._clock, disk=self.disk)
        self.first_step = 0

    @property
    def step(self) -> int:
        return len(self.disk.steps)

    async def begin(self) -> None:
        await self.broker.topics.create("orders", {}, partition_count=1)
        await create_delaying(self.broker, "reminders")
        await self.broker.configs.replace(32, GROUP, {"headwater.deadletterqueue.enable": "true"}, validate_only=False)
        await self.broker.shares.begin_at(share_id(self.broker), self.broker.partition("orders", 0), "earliest")
        self.first_step = self.step

    async def live(self, operations: int) -> None:
        for name in self._chance.choices([*OPERATIONS], [*OPERATIONS.values()], k=operations):
            await getattr(self, name)()
            self._clock.advance(self._chance.choice((0, 1, 500)))
            self.history.clock.append((self.step, self._clock.now_ms()))

    # -- operations

    async def produce(self) -> None:
        values = [b"%d" % each for each in range(self._chance.randint(1, 4))]
        span = Span(self.step)
        append = await produce(self.broker, self.broker.partition("orders", 0), batch_of(*values))
        assert append.error is None
        span.acknowledged = self.step
        self.history.records.update(dict.fromkeys(range(append.base_offset, append.next_offset), span))

    async def settle(self) -> None:
        """Take some records, and say something of most of them."""
        partition, shared = self.broker.partition("orders", 0), share_id(self.broker)
        share = self.broker.shares.find(shared)
        assert share is not None
        first = share.next_fetch_offset
        if first >= partition.high_watermark:
            return
        command = Acquire(MEMBER, [LogBatch(first, partition.high_watermark - 1, True)], 5, True, None)
        ranges, told = self.broker.shares.acquire(shared, command)
        outcome = await run(told.wait())
        assert not isinstance(outcome, HeadwaterError), outcome
        for each in ranges:
            for offset in range(each.first, each.last + 1):
                await self._settle(shared, offset, self._chance.choice((ACCEPT, ACCEPT, REJECT, RELEASE)))

    async def _settle(self, shared: SharePartitionId, offset: int, kind: AcknowledgeType) -> None:
        settled = Settled(kind, Span(self.step))
        if kind is not RELEASE:
            self.history.settled[offset] = settled
        said = [Acknowledgement(offset, offset, [kind])]
        outcome = await run(self.broker.shares.acknowledge(shared, MEMBER, said, is_renewal=False).wait())
        assert not isinstance(outcome, HeadwaterError), outcome
        settled.span.acknowledged = self.step

    async def schedule(self) -> None:
        """A batch of an idempotent producer, which is sent twice now and then."""
        delays = [self._chance.choice((None, 1, 800, 5000)) for _ in range(self._chance.randint(1, 3))]
        values = [b"value %d" % self._next() for _ in delays]
        span = Span(self.step)
        for value, delay_ms in zip(values, delays, strict=True):
            self.history.scheduled[value] = Scheduled(self._clock.now_ms() + (delay_ms or 0), span)
        records = [delayed(value, delay_ms) for value, delay_ms in zip(values, delays, strict=True)]
        options = {"producer_id": PRODUCER_ID, "producer_epoch": 0, "base_sequence": self._sequence}
        self._sequence += len(records)
        for _ in range(self._chance.choice((1, 1, 2))):
            batch = batch_of_records(*records, **options)
            append = await produce(self.broker, self.broker.partition("reminders", 0), batch)
            assert append.error is None, append.error
            span.acknowledged = min(span.acknowledged, self.step)

    async def cancel(self) -> None:
        administration = self.broker.schedule.administration
        page = await administration.page("reminders", RecordName(0, -1), 10)
        chosen = [each for each in page.records if each.record is not None]
        if not chosen:
            return
        one = self._chance.choice(chosen)
        assert one.record is not None
        assert one.record.value is not None
        span = Span(self.step)
        try:
            await administration.change("reminders", RecordName(0, one.entry.offset), Change.CANCEL, -1)
        except HeadwaterError:
            # It is being delivered.
            return
        span.acknowledged = self.step
        self.history.scheduled[bytes(one.record.value)].cancelled = span

    async def deliver(self) -> None:
        self._clock.advance(1000)
        self.history.clock.append((self.step, self._clock.now_ms()))
        await settle(self.broker, self._clock)

    async def prune(self) -> None:
        # Logs of a short life are pruned, too.
        with patch.object(prune_module, "PRUNE_RECORDS_MIN", 5):
            await prune(self.broker.shares, self.broker.partitions, self.broker.housekeeping.collect)

    async def compact(self) -> None:
        await run(self.broker.housekeeping.compact())

    async def restart(self) -> None:
        await self.broker.stop()
        self.broker = start(self._root, SETTINGS, clock=self._clock, disk=self.disk)
        await loaded(self.broker)

    def _next(self) -> int:
        self._value_count += 1
        return self._value_count


# The relative frequency of each operation.
OPERATIONS = {
    "produce": 3,
    "settle": 5,
    "schedule": 5,
    "cancel": 2,
    "deliver": 3,
    "prune": 1,
    "compact": 1,
    "restart": 1,
}


def share_id(broker: Broker) -> SharePartitionId:
    return SharePartitionId(GROUP, broker.topics.existing("orders").id, 0)


async def loaded(broker: Broker) -> None:
    for sharded in (broker.shares, broker.schedule):
        await until(lambda sharded=sharded: all(shard.machine is not None for shard in sharded.shards))


async def explore(
    directory: Path, *, seed: int, operations: int, crashes: int, disk_type: type[RecordingDisk] = RecordingDisk
) -> AsyncIterator[int]:
    """Yields the step of each crash that was survived."""
    chance = random.Random(seed)
    life = QueueLife(directory / "life", seed, disk_type)
    try:
        await life.begin()
        await life.live(operations)
        end = life.step
    finally:
        await life.broker.stop()
    for _ in range(crashes):
        step = chance.randint(life.first_step, end)
        steps = life.disk.steps[:step]
        await _survive(directory / "crashed", steps, life.history, step, seed, chance)
        yield step


async def _survive(
    root: Path, steps: list[Step], history: QueueHistory, step: int, seed: int, chance: random.Random
) -> None:
    now_ms = history.now_ms(step)
    while True:
        names, contents = chance.choice(LOSSES)
        loss = Loss(names, contents, chance.randrange(1 << 30))
        after_crash(steps, loss).materialize(root)
        disk = RecordingDisk(root)
        disk.adopt()
        first_step = len(disk.steps)
        try:
            await _recover(root, disk, history, step, now_ms)
        except Exception as error:
            raise AssertionError(f"seed {seed}, step {step}, {loss}: {type(error).__name__}: {error}") from error
        if chance.random() > TWICE_SHARE:
            return
        steps = disk.steps[: chance.randint(first_step, len(disk.steps))]
        # The recovery has gone on with everything that was due.
        now_ms += LONG_MS


async def _recover(root: Path, disk: RecordingDisk, history: QueueHistory, step: int, now_ms: int) -> None:
    clock = ManualClock(now_ms)
    broker = start(root, SETTINGS, clock=clock, disk=disk)
    try:
        await loaded(broker)
        share = broker.shares.find(share_id(broker))
        assert share is not None, "the group has forgotten that it has begun"
        _check_settled(share, history, step)
        await until(lambda: not share.outbox.size)
        _check_letters(broker, history, step)
        _check_early(broker.partition("reminders", 0), history, clock.now_ms())
        clock.advance(LONG_MS)
        if broker.schedule.shards:
            await settle(broker, clock)
        _check_scheduled(broker.partition("reminders", 0), history, step)
    finally:
        for shard in broker.shares.shards:
            shard.drop("the broker was killed")
        await kill(broker)


def _check_settled(share: SharePartition, history: QueueHistory, step: int) -> None:
    for offset, span in history.records.items():
        run_ = share.runs.at(offset)
        is_final = offset < share.runs.start or (run_ is not None and run_.is_final)
        settled = history.settled.get(offset)
        if settled is not None and settled.span.acknowledged <= step:
            assert is_final, f"{offset} was settled and is delivered again"
        if span.acknowledged <= step and (settled is None or settled.span.asked >= step):
            assert not is_final, f"{offset} is lost"


def _check_letters(broker: Broker, history: QueueHistory, step: int) -> None:
    if broker.topics.find("orders.dlq") is None:
        found: list[int] = []
    else:
        found = [*_letters(broker.partition("orders.dlq", 0))]
    rejected = {offset: each.span for offset, each in history.settled.items() if each.kind is REJECT}
    assert len(set(found)) == len(found), f"dead letters are there twice: {found}"
    assert set(found) <= {offset for offset, span in rejected.items() if span.asked < step}, f"nobody rejected {found}"
    missing = {offset for offset, span in rejected.items() if span.acknowledged <= step}.difference(found)
    assert not missing, f"dead letters are missing: {missing}"


def _letters(partition: Partition) -> Any:
    offset = partition.start_offset
    while offset < partition.end_offset:
        piece = partition.read_written(offset, 1 << 20, partition.end_offset)
        for header, batch in batches.iterate(piece.read()):
            for record in batches.read_records(batch, header, 1 << 20):
                origin = dead_letter_headers.read(record.headers)
                assert origin is not None
                yield origin.offset
            offset = header.next_offset


def _check_early(target: Partition, history: QueueHistory, now_ms: int) -> None:
    for value in readable(target):
        assert value is not None
        assert history.scheduled[value].due_ms <= now_ms, f"{value!r} is there before its time"


def _check_scheduled(target: Partition, history: QueueHistory, step: int) -> None:
    found = readable(target)
    assert len(set(found)) == len(found), f"records appeared twice: {found}"
    for value, scheduled in history.scheduled.items():
        cancelled = scheduled.cancelled
        if value in found:
            assert scheduled.span.asked < step, f"{value!r} comes from the future"
            assert cancelled is None or cancelled.acknowledged > step, f"{value!r} was cancelled"
        else:
            is_due = scheduled.span.acknowledged <= step and (cancelled is None or cancelled.asked >= step)
            assert not is_due, f"{value!r} is lost"
