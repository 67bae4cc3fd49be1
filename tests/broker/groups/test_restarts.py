"""Groups after a restart, and shards that go on while another shard is damaged or unreadable."""

import asyncio
import errno
from pathlib import Path

import pytest

from headwater.broker.broker import Broker
from headwater.clock import ManualClock
from headwater.coordination.catalog.topic_names import OFFSETS_TOPIC
from headwater.coordination.groups.offsets.commands import OffsetQuery
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from tests.broker.groups.group_commands import (
    BOB,
    FIRST,
    ORDERS,
    SECOND,
    SETTINGS,
    SHARDS,
    THIRD,
    commit,
    commit_of,
    committed,
    done,
    loaded,
    prepared,
    refusal,
    stable_classic,
)
from tests.support.broker.embedded_broker import crash, create, run, running, start
from tests.support.broker.faulty_disk import FaultyDisk, FaultyFile
from tests.support.coordination.consumer_driver import heartbeat

# -- restarts


@pytest.mark.parametrize("cleanly", [True, False])
async def test_groups_and_offsets_that_were_answered_survive_a_restart(tmp_path: Path, cleanly: bool) -> None:
    broker = start(tmp_path, SETTINGS)
    groups = await prepared(broker)
    await stable_classic(groups, FIRST)
    await done(groups.commit(FIRST, commit_of(1, member_id=BOB, generation=1)))
    await done(groups.member_heartbeat(SECOND, heartbeat("ann", topics=[ORDERS.topic])))
    await commit(groups, THIRD, 3)
    consumer = await done(groups.describe_consumer(SECOND))
    classic = await done(groups.describe_classic(FIRST))
    await (broker.stop() if cleanly else crash(broker))

    async with running(tmp_path, SETTINGS) as again:
        groups = await loaded(again)
        assert await committed(groups, FIRST) == 1
        assert await committed(groups, THIRD) == 3
        assert await done(groups.describe_classic(FIRST)) == classic
        assert await done(groups.describe_consumer(SECOND)) == consumer
        assert await done(groups.heartbeat(FIRST, BOB, None, 1)) is ErrorCode.NONE
        assert (await done(groups.member_heartbeat(SECOND, heartbeat("ann", 1)))).epoch == 1


async def test_the_topic_and_not_the_setting_decides_the_number_of_shards(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        await commit(await prepared(broker), THIRD, 3)
    async with running(tmp_path, {**SETTINGS, "offsets.topic.num.partitions": "7"}) as again:
        groups = await loaded(again)
        await run(groups.prepare())
        assert len(groups.shards) == SHARDS
        assert await committed(groups, THIRD) == 3


async def test_commands_to_a_loading_shard_are_refused_at_once(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        await commit(await prepared(broker), FIRST, 1)
    async with running(tmp_path, SETTINGS) as again:
        asked = again.groups.committed(FIRST, OffsetQuery(None))
        with pytest.raises(Refusal) as refused:
            await again.groups.list()
        assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await refusal(asked) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await committed(await loaded(again), FIRST) == 1


async def test_a_stop_while_shards_load_loses_no_group(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        await commit(await prepared(broker), THIRD, 1)
    broker = start(tmp_path, SETTINGS)
    await asyncio.sleep(0)
    loading = broker.groups._loading
    assert loading is not None
    assert not loading.done()
    # Stop at once: otherwise the shards finish loading first.
    await broker.groups.stop()
    assert loading.cancelled()
    await run(broker.stop())
    assert await refusal(broker.groups.commit(THIRD, commit_of(2))) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    async with running(tmp_path, SETTINGS) as again:
        assert await committed(await loaded(again), THIRD) == 1


async def test_a_recreated_topic_does_not_get_the_offsets_of_its_namesake(tmp_path: Path) -> None:
    """Even after a crash between the deletion of the topic and that of its offsets."""
    broker = start(tmp_path, SETTINGS)
    groups = await prepared(broker)
    topic_id = broker.metadata.state.by_name[ORDERS.topic].id
    assert await done(groups.commit(FIRST, commit_of(7, topic_id=topic_id))) == [ErrorCode.NONE]
    # The broker crashes before it tells the groups about the deletion.
    broker.topics._on_deleted.clear()
    await run(broker.topics.delete(ORDERS.topic))
    await crash(broker)
    async with running(tmp_path, SETTINGS) as again:
        groups = await loaded(again)
        assert await committed(groups, FIRST) == 7, "the topic may be restored yet"
        await create(again, ORDERS.topic)
        assert await committed(groups, FIRST) is None
    async with running(tmp_path, SETTINGS) as restarted:
        assert await committed(await loaded(restarted), FIRST) is None


class Ticking(ManualClock):
    """Advances by a second at every reading."""

    def monotonic_ms(self) -> int:
        self.advance(1000)
        return super().monotonic_ms()


async def test_a_long_load_logs_its_progress(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with running(tmp_path, SETTINGS) as broker:
        await commit(await prepared(broker), THIRD, 1)
    async with running(tmp_path, SETTINGS, clock=Ticking()) as again:
        await loaded(again)
    assert f"of {SHARDS} partitions of __consumer_offsets" in caplog.text
    assert "loaded 1 records of __consumer_offsets" in caplog.text


# -- damage


async def two_shards_filled(path: Path) -> Path:
    """Fills two shards and returns the log file of the first."""
    async with running(path, SETTINGS) as broker:
        groups = await prepared(broker)
        await commit(groups, FIRST, 1)
        await commit(groups, SECOND, 2)
        (log,) = broker.partition(OFFSETS_TOPIC, 0)._log.directory.glob("*.log")
        return log


async def check_others_go_on(broker: Broker) -> None:
    groups = await loaded(broker)
    assert await refusal(groups.committed(FIRST, OffsetQuery(None))) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await refusal(groups.commit(FIRST, commit_of(9))) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await committed(groups, SECOND) == 2
    await commit(groups, SECOND, 3)
    with pytest.raises(HeadwaterError):
        await groups.list()
    await run(groups.topic_deleted(ORDERS.topic))
    await run(groups.expire())
    assert await committed(groups, SECOND) is None


async def test_a_shard_whose_log_is_damaged_is_not_served_and_the_others_are(tmp_path: Path) -> None:
    log = await two_shards_filled(tmp_path)
    damaged = bytearray(log.read_bytes())
    damaged[-3] ^= 1
    log.write_bytes(damaged)
    async with running(tmp_path, SETTINGS) as broker:
        await check_others_go_on(broker)


class UnreadableFile(FaultyFile):
    __slots__ = ()

    def pread(self, length: int, position: int) -> bytes:
        if self.disk.is_cursed(self.path):
            raise self.disk.error(errno.EIO)
        return super().pread(length, position)


class UnreadableDisk(FaultyDisk):
    file_type = UnreadableFile


async def test_a_shard_whose_log_cannot_be_read_is_not_served_and_the_others_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await two_shards_filled(tmp_path)
    disk = UnreadableDisk()
    disk.cursed = f"{OFFSETS_TOPIC}-0"
    async with running(tmp_path, SETTINGS, disk=disk) as broker:
        await check_others_go_on(broker)
    assert f"{OFFSETS_TOPIC}-0 cannot be loaded" in caplog.text
