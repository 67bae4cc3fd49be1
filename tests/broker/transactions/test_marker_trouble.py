"""Markers reach every partition in the end despite full disks and crashes; transactions time out."""

import asyncio
from pathlib import Path

import pytest

from headwater.broker.broker import Broker
from headwater.broker.shards import shard as shard_module
from headwater.broker.transactions import coordinator as transactions_module
from headwater.clock import ManualClock
from headwater.coordination.catalog.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from headwater.coordination.groups.classic.commands import NO_GENERATION
from headwater.coordination.groups.offsets.commands import Commit, OffsetQuery, OffsetToCommit
from headwater.coordination.groups.terms import NO_MEMBER
from headwater.coordination.transactions.commands import PROTOCOL_1
from headwater.errors import ErrorCode, Refusal
from headwater.ids import NO_TOPIC_ID, GroupId, MemberId, ProducerId, TopicName, TopicPartition
from headwater.protocol.batches.batch import Marker
from tests.support.broker.embedded_broker import NOW_MS, TIMEOUT_S, create, run, running, settled, start
from tests.support.broker.faulty_disk import BROKEN, FULL, FaultyDisk
from tests.support.broker.transactions import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    ENDS,
    FIRST_PROTOCOL,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PROTOCOLS,
    SECOND_PROTOCOL,
    SETTINGS,
    TIMEOUT_MS,
    TX,
    crashed,
    end,
    eventually,
    initialized,
    is_stable,
    loaded,
    markers,
    refused,
    shard_of,
    stage,
    state,
    with_cursed,
    written,
)


@pytest.fixture(autouse=True)
def _retries_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions_module, "RETRY_PAUSE_S", 0.001)
    monkeypatch.setattr(transactions_module, "RETRY_PAUSE_S_MAX", 0.001)


# -- markers


@PROTOCOLS
@ENDS
async def test_every_partition_gets_its_marker(tmp_path: Path, protocol_version: int, is_commit: bool) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        partitions = [await create(broker, name) for name in ("one", "two", "three")]
        producer = await initialized(broker)
        await written(broker, producer, "one", "three")
        after = await end(broker, producer, is_commit=is_commit, protocol_version=protocol_version)
        assert after == producer._replace(epoch=protocol_version - 1)
        complete = COMPLETE_COMMIT if is_commit else COMPLETE_ABORT
        await eventually(lambda: state(broker) is complete)
        assert [markers(each) for each in partitions] == [[is_commit], [], [is_commit]]
        assert all(is_stable(each) for each in partitions)
        await eventually(lambda: not broker.transactions._marker_writers)


@PROTOCOLS
@ENDS
async def test_a_full_disk_delays_only_its_own_marker(
    tmp_path: Path, protocol_version: int, is_commit: bool, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FaultyDisk()
    async with with_cursed(tmp_path, disk) as (broker, producer, cursed, healthy):
        disk.write_error = FULL
        after = await end(broker, producer, is_commit=is_commit, protocol_version=protocol_version)
        await eventually(lambda: caplog.text.count("markers of 'tx' are missing in 1 partitions") >= 3)
        assert state(broker) is (PREPARE_COMMIT if is_commit else PREPARE_ABORT)
        assert (markers(healthy), is_stable(healthy)) == ([is_commit], True)
        assert (markers(cursed), is_stable(cursed)) == ([], False)
        # Until then no record of the next transaction is accepted, and no client can take the id over.
        append = await settled(stage(broker, healthy, after, b"next"))
        assert append.error is not None
        assert append.error.code is ErrorCode.CONCURRENT_TRANSACTIONS
        with pytest.raises(Refusal) as refusal:
            await initialized(broker)
        assert refusal.value.code is ErrorCode.CONCURRENT_TRANSACTIONS

        disk.heal()
        await eventually(lambda: state(broker) is (COMPLETE_COMMIT if is_commit else COMPLETE_ABORT))
        assert (markers(cursed), is_stable(cursed)) == ([is_commit], True)
        assert markers(healthy) == [is_commit], "and no second one"


@ENDS
async def test_the_marker_of_a_partition_that_is_offline_is_written_after_a_restart(
    tmp_path: Path, is_commit: bool
) -> None:
    disk = FaultyDisk()
    async with with_cursed(tmp_path, disk) as (broker, producer, _, healthy):
        disk.sync_error = BROKEN
        after = await end(broker, producer, is_commit=is_commit)
        await eventually(lambda: markers(healthy) == [is_commit])
        assert state(broker) is (PREPARE_COMMIT if is_commit else PREPARE_ABORT)
        # The broker stops although a marker is missing.
    async with running(tmp_path, SETTINGS) as again:
        complete = COMPLETE_COMMIT if is_commit else COMPLETE_ABORT
        await eventually(lambda: state(again) is complete)
        cursed = again.partition("cursed", 0)
        assert set(markers(cursed)) == {is_commit}
        assert is_stable(cursed)
        await written(again, after, "cursed", "healthy")


@PROTOCOLS
@ENDS
async def test_a_crash_between_the_decision_and_the_last_marker_changes_nothing(
    tmp_path: Path, protocol_version: int, is_commit: bool
) -> None:
    disk = FaultyDisk()
    broker = start(tmp_path, SETTINGS, disk=disk)
    for name in ("cursed", "healthy"):
        await create(broker, name)
    producer = await initialized(broker)
    await written(broker, producer, "cursed", "healthy")
    disk.write_error = FULL
    await end(broker, producer, is_commit=is_commit, protocol_version=protocol_version)
    await eventually(lambda: markers(broker.partition("healthy", 0)) == [is_commit])
    await crashed(broker)

    async with running(tmp_path, SETTINGS) as again:
        complete = COMPLETE_COMMIT if is_commit else COMPLETE_ABORT
        await eventually(lambda: state(again) is complete)
        assert markers(again.partition("cursed", 0)) == [is_commit]
        assert set(markers(again.partition("healthy", 0))) == {is_commit}
        assert is_stable(again.partition("cursed", 0))
        assert await initialized(again) == producer._replace(epoch=protocol_version)


@PROTOCOLS
@ENDS
async def test_a_crash_between_the_last_marker_and_its_completion_record_changes_nothing(
    tmp_path: Path, protocol_version: int, is_commit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_module, "WRITE_LATER_S", TIMEOUT_S)
    complete = COMPLETE_COMMIT if is_commit else COMPLETE_ABORT
    broker = start(tmp_path, SETTINGS)
    await create(broker, "topic")
    producer = await initialized(broker)
    await written(broker, producer, "topic")
    after = await end(broker, producer, is_commit=is_commit, protocol_version=protocol_version)
    await eventually(lambda: state(broker) is complete)
    assert shard_of(broker)._unwritten, "nobody waits for it"
    await crashed(broker)

    async with running(tmp_path, SETTINGS) as again:
        await eventually(lambda: state(again) is complete)
        topic = again.partition("topic", 0)
        assert (markers(topic), is_stable(topic)) == ([is_commit, is_commit], True)
        sequence = 0 if after.epoch > producer.epoch else 1
        assert (await settled(stage(again, topic, after, b"next", sequence=sequence))).error is None
        assert (state(again), is_stable(topic)) == (ONGOING, False)


async def test_markers_are_not_repeated_after_the_next_transaction_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In protocol 1 a partition would take the repeated marker for the end of the next transaction."""
    monkeypatch.setattr(shard_module, "WRITE_LATER_S", TIMEOUT_S)
    broker = start(tmp_path, SETTINGS)
    await create(broker, "topic")
    producer = await initialized(broker)
    await written(broker, producer, "topic")
    await end(broker, producer, protocol_version=PROTOCOL_1)
    await eventually(lambda: state(broker) is COMPLETE_COMMIT)
    added = broker.transactions.add_partitions(TX, producer, [TopicPartition(TopicName("topic"), 0)], PROTOCOL_1)
    assert await run(added.wait()) is None
    append = await settled(stage(broker, broker.partition("topic", 0), producer, b"next", FIRST_PROTOCOL, sequence=1))
    assert append.error is None
    await crashed(broker)

    async with running(tmp_path, SETTINGS) as again:
        await loaded(again)
        topic = again.partition("topic", 0)
        assert (state(again), markers(topic), is_stable(topic)) == (ONGOING, [True], False)


@pytest.mark.parametrize("cleanly", [True, False])
async def test_an_open_transaction_continues_after_a_restart(tmp_path: Path, cleanly: bool) -> None:
    broker = start(tmp_path, SETTINGS)
    await create(broker, "topic")
    producer = await initialized(broker)
    await written(broker, producer, "topic")
    await (broker.stop() if cleanly else crashed(broker))
    async with running(tmp_path, SETTINGS) as again:
        await loaded(again)
        assert state(again) is ONGOING
        topic = again.partition("topic", 0)
        assert not is_stable(topic)
        await end(again, producer)
        await eventually(lambda: state(again) is COMPLETE_COMMIT)
        assert (markers(topic), is_stable(topic)) == ([True], True)


@pytest.mark.parametrize("is_made_again", [True, False])
async def test_a_deleted_topic_needs_no_marker(tmp_path: Path, is_made_again: bool) -> None:
    disk = FaultyDisk()
    async with with_cursed(tmp_path, disk) as (broker, producer, _, healthy):
        disk.write_error = FULL
        await end(broker, producer)
        await eventually(lambda: markers(healthy) == [True])
        assert state(broker) is PREPARE_COMMIT
        await run(broker.topics.delete("cursed"))
        if is_made_again:
            disk.heal()
            await create(broker, "cursed")
        await eventually(lambda: state(broker) is COMPLETE_COMMIT)
        if is_made_again:
            assert is_stable(broker.partition("cursed", 0))


async def test_the_next_transaction_begins_as_soon_as_the_markers_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions_module, "PARK_TIMEOUT_S", TIMEOUT_S)
    disk = FaultyDisk()
    async with with_cursed(tmp_path, disk) as (broker, producer, cursed, healthy):
        disk.write_error = FULL
        after = await end(broker, producer)
        next_of_all = [stage(broker, partition, after, b"next") for partition in (healthy, cursed)]
        await asyncio.sleep(0)
        assert not any(outcome.is_done for outcome in next_of_all)
        disk.heal()
        assert [(await settled(outcome)).error for outcome in next_of_all] == [None, None]
        assert (markers(healthy), markers(cursed), state(broker)) == ([True], [True], ONGOING)


async def test_a_stopping_broker_refuses_requests_that_wait_for_markers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions_module, "PARK_TIMEOUT_S", TIMEOUT_S)
    disk = FaultyDisk()
    async with with_cursed(tmp_path, disk) as (broker, producer, _, healthy):
        disk.write_error = FULL
        after = await end(broker, producer)
        waiting = stage(broker, healthy, after, b"next")
        await run(broker.transactions.stop())
        error = (await settled(waiting)).error
        assert error is not None
        assert error.code is ErrorCode.CONCURRENT_TRANSACTIONS
        disk.heal()


async def test_a_stopping_broker_does_not_wait_for_missing_markers(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with with_cursed(tmp_path, disk) as (broker, producer, cursed, _):
        disk.write_error = FULL
        await end(broker, producer)
        await eventually(lambda: bool(broker.transactions._marker_writers))
        await run(broker.transactions.stop())
        assert not broker.transactions._marker_writers
        assert markers(cursed) == []
        disk.heal()
    async with running(tmp_path, SETTINGS) as again:
        await eventually(lambda: state(again) is COMPLETE_COMMIT)
        assert markers(again.partition("cursed", 0)) == [True]


async def test_a_reloaded_coordinator_writes_no_marker_into_a_later_transaction(tmp_path: Path) -> None:
    """In protocol 1 a partition could not tell the two transactions apart."""
    disk = FaultyDisk()
    async with with_cursed(tmp_path, disk) as (broker, producer, cursed, _):
        disk.write_error = FULL
        await end(broker, producer, protocol_version=PROTOCOL_1)
        shard = shard_of(broker)
        for _ in range(3):
            shard.drop("for a test")
            await run(shard.load())
        assert len(broker.transactions._marker_writers) == 1
        disk.heal()
        await eventually(lambda: state(broker) is COMPLETE_COMMIT)
        await eventually(lambda: not broker.transactions._marker_writers)
        assert markers(cursed) == [True]


async def test_a_decision_refused_by_the_disk_writes_no_markers(tmp_path: Path) -> None:
    disk = FaultyDisk()
    disk.cursed = TRANSACTIONS_TOPIC
    async with running(tmp_path, SETTINGS, disk=disk) as broker:
        topic = await create(broker, "topic")
        producer = await initialized(broker)
        await written(broker, producer, "topic")
        disk.write_error = FULL
        with pytest.raises(Refusal) as refusal:
            await end(broker, producer)
        assert refusal.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        disk.heal()
        await eventually(lambda: state(broker) is ONGOING)
        assert markers(topic) == []
        await end(broker, producer, is_commit=False)
        await eventually(lambda: state(broker) is COMPLETE_ABORT)
        assert markers(topic) == [False]


@ENDS
async def test_the_end_of_a_transaction_commits_its_group_offsets(tmp_path: Path, is_commit: bool) -> None:
    group, orders = GroupId("group"), TopicName("orders")
    async with running(tmp_path, SETTINGS) as broker:
        await create(broker, orders)
        await run(broker.groups.prepare())
        producer = await initialized(broker)
        where = TopicPartition(OFFSETS_TOPIC, broker.groups.partition_of(group))
        assert await run(broker.transactions.join(SECOND_PROTOCOL, producer, where).wait()) is None
        offsets = [OffsetToCommit(orders, 0, 7, -1, "", NO_TOPIC_ID)]
        commit = Commit(MemberId(NO_MEMBER), None, NO_GENERATION, offsets)
        codes = await run(broker.groups.commit_in_transaction(group, commit, *producer).wait())
        assert codes == [ErrorCode.NONE]
        await end(broker, producer, is_commit=is_commit)
        await eventually(lambda: state(broker) is (COMPLETE_COMMIT if is_commit else COMPLETE_ABORT))
        asked = OffsetQuery([TopicPartition(orders, 0)], require_stable=True)
        (found,) = await run(broker.groups.committed(group, asked).wait())
        assert (None if found.committed is None else found.committed.offset) == (7 if is_commit else None)


async def test_a_marker_for_an_unknown_partition_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        await create(broker, "topic")
        for where in (("topic", 1), ("topic", -1), ("nowhere", 0), (OFFSETS_TOPIC, 0)):
            outcome = broker.transactions.write_marker(
                TopicPartition(TopicName(where[0]), where[1]), ProducerId(1), 0, Marker(True, 0), protocol_version=1
            )
            assert await refused(outcome) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# -- time


def wake(broker: Broker) -> None:
    for shard in broker.transactions.shards:
        shard.wake()


async def test_a_transaction_past_its_time_out_is_aborted_and_its_producer_fenced(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, SETTINGS, clock=clock) as broker:
        topic = await create(broker, "topic")
        producer = await initialized(broker)
        await written(broker, producer, "topic")
        clock.advance(TIMEOUT_MS - 1)
        wake(broker)
        assert state(broker) is ONGOING
        clock.advance(1)
        wake(broker)
        await eventually(lambda: state(broker) is COMPLETE_ABORT)
        assert (markers(topic), is_stable(topic)) == ([False], True)
        append = await settled(stage(broker, topic, producer, b"late"))
        assert append.error is not None
        assert append.error.code is ErrorCode.INVALID_PRODUCER_EPOCH


async def test_a_restart_does_not_extend_the_time_out_of_a_transaction(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, SETTINGS, clock=clock) as broker:
        await create(broker, "topic")
        await written(broker, await initialized(broker), "topic")
    clock.advance(TIMEOUT_MS - 1)
    async with running(tmp_path, SETTINGS, clock=clock) as again:
        await loaded(again)
        assert state(again) is ONGOING
        clock.advance(1)
        wake(again)
        await eventually(lambda: state(again) is COMPLETE_ABORT)
        assert is_stable(again.partition("topic", 0))
