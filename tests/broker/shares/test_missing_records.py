"""Offsets without a record, as delayed records and compaction leave them. Members may hold them."""

from pathlib import Path

import pytest

from headwater.broker.broker import Broker
from headwater.broker.shares import dead_letters as dead_letters_module
from headwater.clock import ManualClock
from headwater.protocol.batches.dead_letter_headers import Reason
from headwater.protocol.batches.records import Record
from tests.broker.shares.dead_letter_cases import brief, configure, settled, until
from tests.broker.shares.share_commands import ANN, SETTINGS, Shared
from tests.support.broker.embedded_broker import NOW_MS, create, produce, running
from tests.support.broker.schedules import batch_of, delayed


async def queue(broker: Broker, *records: Record, **settings: str) -> Shared:
    partition = await create(broker, "orders", 1, headwater_delay_enable="true", **settings)
    found = Shared(broker, partition)
    await configure(broker, headwater_deadletterqueue_enable="true", headwater_deadletterqueue_expired_enable="true")
    await found.join()
    assert (await produce(broker, partition, batch_of(*records))).error is None
    return found


async def expire(found: Shared, count: int) -> None:
    """A member asks for records, and so many offsets turn out to have expired."""
    fetch = found.fetch()
    await until(lambda: found.broker.shares.measurements.outlived.value == count)
    fetch.abandon()
    await settled(found.broker, found)


LATER = delayed(b"later", 60_000)


@pytest.mark.parametrize("records", [(delayed(b"a"), LATER, delayed(b"b")), (LATER, LATER, delayed(b"a"))])
async def test_a_gap_that_a_dead_member_held_is_no_dead_letter(tmp_path: Path, records: tuple[Record, ...]) -> None:
    async with running(tmp_path, SETTINGS, clock=ManualClock(NOW_MS)) as broker:
        orders = await queue(broker, *records)
        for delivery in (1, 2):
            assert await orders.fetched() == [(0, 2, delivery)]
            broker.shares.release_all([orders.id], ANN)
        await settled(broker, orders)
        due = [(each.value, at, 2, Reason.EXHAUSTED) for at, each in enumerate(records) if each is not LATER]
        assert brief(broker) == due


@pytest.mark.parametrize("is_copied", ["true", "false"])
async def test_a_gap_does_not_expire(tmp_path: Path, is_copied: str) -> None:
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, SETTINGS, clock=clock) as broker:
        orders = await queue(broker, LATER, delayed(b"a"), LATER, delayed(b"b"), headwater_ttl_ms="500")
        await configure(
            broker,
            headwater_deadletterqueue_enable="true",
            headwater_deadletterqueue_expired_enable="true",
            errors_deadletterqueue_copy_record_enable=is_copied,
        )
        clock.advance(600)
        await expire(orders, 4)
        assert [(offset, reason) for _, offset, _, reason in brief(broker)] == [
            (1, Reason.EXPIRED),
            (3, Reason.EXPIRED),
        ]


async def test_gaps_alone_are_no_dead_letters_and_those_after_them_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters_module, "BATCH_LETTERS_MAX", 2)
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, SETTINGS, clock=clock) as broker:
        orders = await queue(broker, LATER, LATER, LATER, LATER, delayed(b"a"), headwater_ttl_ms="500")
        clock.advance(600)
        await expire(orders, 5)
        assert brief(broker) == [(b"a", 4, 0, Reason.EXPIRED)]
