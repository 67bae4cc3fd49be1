"""A machine's log: replay returns exactly the committed events."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from headwater.broker.partition import Partition
from headwater.broker.pending import Pending
from headwater.broker.shards.state_log import StateLog
from headwater.broker.writes.journal import Append
from headwater.errors import HeadwaterError
from headwater.protocol.batches.batch import Marker
from tests.support.broker.embedded_broker import NOW_MS, batch_of, create, produce, run, running
from tests.support.broker.faulty_disk import FULL, FaultyDisk

READ_BYTES = 64 << 10


class WordFormat:
    def encode(self, event: str) -> tuple[bytes, bytes | None]:
        return event.encode(), None if event.startswith("-") else event.upper().encode()

    def decode(self, key: bytes, value: bytes | None) -> str | None:
        return None if value == b"UNKNOWN" else key.decode()


def log_of(partition: Partition) -> StateLog[str]:
    return StateLog(partition, WordFormat())


async def commit(log: StateLog[str], events: Sequence[str]) -> None:
    await run(log.commit(events, NOW_MS))


def replayed(partition: Partition) -> list[str]:
    return [event for events in log_of(partition).replay(READ_BYTES) for event in events]


async def test_replay_returns_events_in_order_over_many_segments(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        partition = await create(broker, "words", segment_bytes="1048576")
        log = log_of(partition)
        written = ["one", "two"]
        await commit(log, written)
        for number in range(30):
            written += (more := [f"{number}" * 50_000, "-tombstone"])
            await commit(log, more)

        assert replayed(partition) == written
        assert len(partition._log.segments) > 1


async def test_a_long_log_is_replayed_in_steps(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        partition = await create(broker, "words")
        for number in range(10):
            await commit(log_of(partition), [f"{number}" * READ_BYTES])

        assert len(list(log_of(partition).replay(READ_BYTES))) == 10


async def test_replay_skips_records_that_are_no_events(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        partition = await create(broker, "words")
        await produce(broker, partition, batch_of(b"x", key=None))
        await produce(broker, partition, batch_of(b"UNKNOWN"))
        await commit(log_of(partition), ["known"])
        assert replayed(partition) == ["known"]


async def test_replay_skips_transaction_markers(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        partition = await create(broker, "words")
        done: Pending[Append] = Pending()
        partition.stage_marker(7, 0, Marker(True, 0), Append(done.resolve), NOW_MS)
        await run(done.wait())
        log_of(partition).check(["anything"])
        await commit(log_of(partition), ["word"])
        assert replayed(partition) == ["word"]


async def test_events_refused_by_a_full_disk_are_not_replayed(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with running(tmp_path, disk=disk) as broker:
        partition = await create(broker, "cursed")
        log = log_of(partition)
        await commit(log, ["first"])
        disk.write_error = FULL
        with pytest.raises(HeadwaterError):
            await commit(log, ["refused"])
        disk.heal()
        await commit(log, ["second"])

        assert replayed(partition) == ["first", "second"]
