"""One machine over one log: what is committed is what is replayed."""

from pathlib import Path

import pytest

from headwater.broker.partition import Partition
from headwater.broker.shard import Shard
from headwater.clock import ManualClock
from headwater.errors import HeadwaterError
from tests.broker.faulty_disk import FULL, FaultyDisk
from tests.broker.running import batch_of, create, produce, run, running


class Words:
    """A machine that remembers."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def apply(self, event: str) -> None:
        self.seen.append(event)


class WordFormat:
    def encode(self, event: str) -> tuple[bytes, bytes | None]:
        return event.encode(), None if event.startswith("-") else event.upper().encode()

    def decode(self, key: bytes, value: bytes | None) -> str | None:
        return None if value == b"UNKNOWN" else key.decode()


def shard_on(partition: Partition) -> tuple[Words, Shard[str]]:
    words = Words()
    return words, Shard(partition, words, WordFormat(), ManualClock())


async def test_a_replayed_log_rebuilds_the_same_machine(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        partition = await create(broker, "words", segment_bytes="1048576")
        words, shard = shard_on(partition)
        await run(shard.commit(["one", "two"]))
        await run(shard.commit([]))
        for number in range(30):
            await run(shard.commit([f"{number}" * 50_000, "-tombstone"]))

        again, replaying = shard_on(partition)

        assert replaying.replay() == len(words.seen)
        assert again.seen == words.seen
        assert len(partition.log.segments) > 1


async def test_records_that_are_no_events_are_passed_over(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        partition = await create(broker, "words")
        await produce(broker, partition, batch_of(b"x", key=None))
        await produce(broker, partition, batch_of(b"UNKNOWN"))
        words, shard = shard_on(partition)
        await run(shard.commit(["known"]))
        again, replaying = shard_on(partition)
        assert replaying.replay() == 1
        assert again.seen == words.seen == ["known"]


async def test_what_is_not_on_disk_has_not_happened(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with running(tmp_path, disk=disk) as broker:
        partition = await create(broker, "cursed")
        words, shard = shard_on(partition)
        await run(shard.commit(["first"]))
        disk.write_error = FULL
        with pytest.raises(HeadwaterError):
            await run(shard.commit(["refused"]))
        assert words.seen == ["first"]
        disk.heal()
        await run(shard.commit(["second"]))

        again, replaying = shard_on(partition)
        replaying.replay()
        assert again.seen == words.seen == ["first", "second"]
