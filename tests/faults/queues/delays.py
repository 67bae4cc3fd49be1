"""Very many delayed records under a clock that the test moves: idempotent producers that repeat batches, cancellations,
and crashes of the broker."""

import asyncio
from pathlib import Path
from random import Random

from headwater.broker.broker import Broker
from headwater.broker.partition import Partition
from headwater.broker.schedule.administration import Change, RecordName
from headwater.clock import ManualClock
from headwater.errors import HeadwaterError
from headwater.ids import TopicName
from headwater.protocol.batches import batch as batches
from tests.support.broker.embedded_broker import NOW_MS, produce, stage, start
from tests.support.broker.schedules import batch_of, create_delaying, delayed, kill, pending, restarted, settle

TOPIC = TopicName("reminders")
PARTITIONS = 4
BATCH = 100
DELAY_MS_MAX = 60_000
REPEATED_SHARE = 0.1
CANCELLED_SHARE = 0.05
STEP_MS_MAX = 400
SETTINGS = {"headwater.schedule.partitions": "2"}


class Appearances:
    """What has appeared, in which place, and that nothing came before its time."""

    def __init__(self, clock: ManualClock) -> None:
        self.due_ms: dict[bytes, int] = {}
        self.places: dict[bytes, tuple[int, int]] = {}
        self._clock = clock
        self._positions = dict.fromkeys(range(PARTITIONS), 0)

    def look(self, partitions: list[Partition]) -> None:
        now_ms = self._clock.now_ms()
        for partition in partitions:
            index = partition.id.partition
            while self._positions[index] < partition.high_watermark:
                found = partition.read_written(self._positions[index], 1 << 20, partition.high_watermark)
                for header, batch in batches.iterate(found.read()):
                    for record in batches.read_records(batch, header, 1 << 24):
                        value = bytes(record.value or b"")
                        assert value not in self.places, f"{value!r} appeared twice"
                        assert self.due_ms[value] <= now_ms, f"{value!r} appeared early"
                        self.places[value] = (index, record.offset)
                    self._positions[index] = header.next_offset


async def run(directory: Path, *, count: int, kills: int, seed: int = 1) -> None:
    random = Random(seed)
    clock = ManualClock(NOW_MS)
    broker = start(directory, SETTINGS, clock=clock)
    await create_delaying(broker, TOPIC, PARTITIONS)
    seen = Appearances(clock)
    cancelled: set[bytes] = set()
    sequences = dict.fromkeys(range(PARTITIONS), 0)
    batches_count = count // BATCH
    killed = {round((number + 1) * batches_count / (kills + 1)) for number in range(kills)}
    for number in range(batches_count):
        index = number % PARTITIONS
        values = [b"%d" % (number * BATCH + each) for each in range(BATCH)]
        delays_ms = [random.randrange(DELAY_MS_MAX) for _ in values]
        names = [value.decode() if not each else None for each, value in enumerate(values)]
        seen.due_ms |= {value: clock.now_ms() + delay for value, delay in zip(values, delays_ms, strict=True)}
        records = [delayed(*each[:2], name=each[2]) for each in zip(values, delays_ms, names, strict=True)]
        options = {"producer_id": 100 + index, "producer_epoch": 0, "base_sequence": sequences[index]}
        sequences[index] += BATCH
        batch = batch_of(*records, **options)
        if number in killed:
            stage(broker, broker.partition(TOPIC, index), batch)
            for _ in range(random.randrange(40)):
                await asyncio.sleep(0)
            await kill(broker)
            broker = await restarted(directory, clock, **SETTINGS)
        attempts = 1 + (random.random() < REPEATED_SHARE)
        for _ in range(attempts):
            append = await produce(broker, broker.partition(TOPIC, index), batch)
            assert append.error is None, append.error
        if random.random() < CANCELLED_SHARE * PARTITIONS:
            cancelled |= await _cancel(broker, values[0])
        clock.advance(random.randrange(STEP_MS_MAX))
        for shard in broker.schedule.shards:
            shard.wake()
        seen.look(broker.partitions.by_topic[TOPIC])
    clock.advance(DELAY_MS_MAX)
    await settle(broker, clock)
    seen.look(broker.partitions.by_topic[TOPIC])
    assert not cancelled.intersection(seen.places), "what was cancelled appeared"
    assert seen.due_ms.keys() - seen.places.keys() == cancelled, "records are lost"
    assert pending(broker) == 0
    await broker.stop()


async def _cancel(broker: Broker, value: bytes) -> set[bytes]:
    try:
        await broker.schedule.administration.change(TOPIC, RecordName(-1, -1, value.decode()), Change.CANCEL, -1)
    except HeadwaterError:
        # It was due at once, or is being delivered.
        return set()
    return {value}
