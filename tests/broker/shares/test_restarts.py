"""Share-partitions after restarts, with their log pruned, and beside trouble of the disk."""

import asyncio
import os
from pathlib import Path

import pytest

from headwater.broker.broker import Broker
from headwater.broker.shares import prune as prune_module
from headwater.coordination.catalog.topic_names import SHARE_STATE_TOPIC
from headwater.coordination.shares.commands import Acknowledged
from headwater.protocol.batches import batch as batches
from tests.broker.shares.share_commands import ACCEPT, ANN, BOB, RELEASE, SETTINGS, loaded, shared
from tests.support.broker.embedded_broker import crash, running, start


@pytest.mark.parametrize("cleanly", [True, False])
async def test_what_was_acknowledged_survives_a_restart_and_acquisitions_end(tmp_path: Path, cleanly: bool) -> None:
    broker = start(tmp_path, SETTINGS)
    orders = await shared(broker)
    await orders.produce(*(b"%d" % each for each in range(10)))
    assert await orders.fetched() == [(0, 9, 1)]
    assert await orders.acknowledge(2, 3, ACCEPT) == Acknowledged(accepted=2)
    assert await orders.acknowledge(5, 5, RELEASE) == Acknowledged(released=1)
    await (broker.stop() if cleanly else crash(broker))

    async with running(tmp_path, SETTINGS) as again:
        orders = await loaded(again, orders)
        assert await orders.fetched(BOB) == [(0, 1, 1), (4, 4, 1), (5, 5, 2), (6, 9, 1)]


@pytest.mark.parametrize("fetches_first", [True, False])
async def test_records_that_take_the_offsets_of_lost_ones_are_delivered(tmp_path: Path, fetches_first: bool) -> None:
    broker = start(tmp_path, SETTINGS)
    orders = await shared(broker)
    await orders.produce(*(b"%d" % each for each in range(10)))
    assert await orders.fetched() == [(0, 9, 1)]
    assert await orders.acknowledge(0, 9, ACCEPT) == Acknowledged(accepted=10)
    (segment,) = orders.partition.directory.glob("*.log")
    await crash(broker)
    # As if the power had failed before the records were on disk, as it may with acks=1.
    os.truncate(segment, 0)

    async with running(tmp_path, SETTINGS) as again:
        orders = await loaded(again, orders)
        assert orders.partition.end_offset == 0
        if fetches_first:
            assert await orders.fetched(wait_ms=0) == []
        await orders.produce(b"new", b"newer")
        assert await orders.fetched() == [(0, 1, 1)]
        assert await orders.acknowledge(0, 1, ACCEPT) == Acknowledged(accepted=2)


async def test_a_broker_without_share_groups_has_no_state_of_them(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        assert broker._shares is None
        assert SHARE_STATE_TOPIC not in broker.partitions.by_topic


async def test_the_log_is_pruned_once_snapshots_have_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prune_module, "PRUNE_RECORDS_MIN", 20)
    broker = start(tmp_path, SETTINGS)
    orders = await shared(broker)
    await orders.produce(*(b"%d" % each for each in range(100)))
    await orders.fetched()
    log = broker.partition(SHARE_STATE_TOPIC, 0)
    await broker.prune_shares()
    assert log.start_offset == 0, "there is little to prune"
    for offset in range(1, 99, 2):
        await orders.acknowledge(offset, offset, ACCEPT)
    before = log.end_offset
    await broker.prune_shares()
    assert (log.start_offset, log.end_offset) == (before, before + 1)
    assert await orders.acknowledge(0, 0, ACCEPT) == Acknowledged(accepted=1), "acquisitions go on"
    await crash(broker)

    async with running(tmp_path, SETTINGS) as again:
        orders = await loaded(again, orders)
        share = again.shares.find(orders.id)
        assert share is not None
        assert (share.runs.start, share.runs.final_count) == (2, 48)
        assert sum(last - first + 1 for first, last, _ in await orders.fetched()) == 50


async def test_several_acknowledgements_of_one_turn_are_one_write(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        orders = await shared(broker)
        await orders.produce(*(b"%d" % each for each in range(10)))
        await orders.fetched()
        log = broker.partition(SHARE_STATE_TOPIC, 0)
        before, batches_before = log.end_offset, _batch_count(broker)
        await asyncio.gather(*(orders.acknowledge(offset, offset, ACCEPT) for offset in range(10)))
        assert (log.end_offset - before, _batch_count(broker) - batches_before) == (10, 1)


def _batch_count(broker: Broker) -> int:
    log = broker.partition(SHARE_STATE_TOPIC, 0)
    return sum(1 for _ in batches.iterate(log.read_written(0, 1 << 20, log.end_offset).read()))


async def test_records_of_an_earlier_process_are_verified_before_they_are_given(tmp_path: Path) -> None:
    broker = start(tmp_path, SETTINGS)
    orders = await shared(broker)
    await orders.produce(b"a", b"b")
    assert await orders.fetched() == [(0, 1, 1)]
    await broker.stop()
    async with running(tmp_path, SETTINGS) as again:
        orders = await loaded(again, orders)
        # Also a fetch that does not wait for records waits for that.
        assert await orders.fetched(wait_ms=0) == [(0, 1, 1)]


async def test_a_state_that_cannot_be_written_takes_acquisitions_back(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        orders = await shared(broker)
        await orders.produce(b"a", b"b")
        assert await orders.fetched() == [(0, 1, 1)]
        shard = broker.shares.shards[0]
        shard._drop_and_reload("for this test")
        while shard.machine is None:
            await asyncio.sleep(0.01)
        assert await orders.fetched(BOB) == [(0, 1, 1)]
        outcome = await broker.shares.acknowledge(orders.id, ANN, [], is_renewal=False).wait()
        assert outcome == Acknowledged()
