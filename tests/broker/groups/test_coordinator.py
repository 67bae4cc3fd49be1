"""Groups over all shards: which shard coordinates a group, and when it accepts commands."""

import asyncio
from pathlib import Path
from uuid import uuid4

import pytest

from headwater.broker.shards import sharded_topic
from headwater.broker.shards.sharded_topic import partition_of
from headwater.clock import ManualClock
from headwater.coordination.catalog.topic_names import OFFSETS_TOPIC
from headwater.coordination.groups.classic.commands import Leave, LeaveResult, Sync
from headwater.coordination.groups.consumer.commands import LEAVE_EPOCH
from headwater.coordination.groups.offsets.commands import OffsetQuery
from headwater.coordination.groups.terms import GroupState, GroupType
from headwater.errors import ErrorCode, Refusal
from headwater.file_range import FileRange
from headwater.ids import GroupId
from headwater.protocol.batches import batch as batches
from headwater.protocol.batches.compression import Codec
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
from tests.support.broker.embedded_broker import NOW_MS, create, run, running
from tests.support.broker.faulty_disk import FULL, FaultyDisk
from tests.support.coordination.consumer_driver import heartbeat
from tests.support.coordination.migration_driver import join_request

# -- which shard


@pytest.mark.parametrize(
    ("group_id", "java_hash"),
    [
        ("", 0),
        ("a", 97),
        ("ab", 97 * 31 + 98),
        ("hello", 99162322),
        ("Hello World", -862545276),
        # Java counts a code point beyond 16 bits as two characters (surrogates), and a lone surrogate as one.
        ("\N{GRINNING FACE}", 0xD83D * 31 + 0xDE00),
        ("\ud800", 0xD800),
        # Its hash is the one integer without an absolute value (-2**31).
        ("polygenelubricants", 0),
    ],
)
@pytest.mark.parametrize("partition_count", [1, 3, 50])
def test_a_group_is_placed_by_javas_string_hash(group_id: str, java_hash: int, partition_count: int) -> None:
    assert partition_of(group_id, partition_count) == abs(java_hash) % partition_count


def test_the_shard_of_a_long_group_name_is_not_cached() -> None:
    remembered = sharded_topic._cached_partition_of.cache_info
    before = remembered().currsize
    assert 0 <= partition_of("x" * 32_767, 50) < 50
    assert remembered().currsize == before
    assert partition_of(f"name-{uuid4()}", 50) < 50
    assert remembered().currsize == min(before + 1, 10_000)


# -- creation of __consumer_offsets


async def test_the_first_lookup_of_a_coordinator_creates_the_topic(tmp_path: Path) -> None:
    async with running(tmp_path, {**SETTINGS, "offsets.topic.segment.bytes": "12345678"}) as broker:
        assert broker.topics.find(OFFSETS_TOPIC) is None
        assert broker.groups.shards == []
        await run(broker.groups.prepare())

        topic = broker.topics.find(OFFSETS_TOPIC)
        assert topic is not None
        assert topic.partition_count == len(broker.groups.shards) == SHARDS
        config = broker.partition(OFFSETS_TOPIC, 0).config
        assert config.cleanup_policy == {"compact"}
        assert config.segment_bytes == 12_345_678
        assert config.compression_type == "producer"


async def test_concurrent_lookups_create_the_topic_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with running(tmp_path, SETTINGS) as broker:
        await run(asyncio.gather(*(broker.groups.prepare() for _ in range(5))))
        shards = broker.groups.shards
        await run(broker.groups.prepare())
        assert broker.groups.shards is shards
        assert all(shard.machine is not None for shard in shards)
    assert caplog.text.count("created topic __consumer_offsets") == 1


async def test_a_disk_error_while_the_topic_is_created_is_reported_and_the_next_lookup_succeeds(tmp_path: Path) -> None:
    disk = FaultyDisk()
    disk.cursed, disk.create_error = OFFSETS_TOPIC, FULL
    async with running(tmp_path, SETTINGS, disk=disk) as broker:
        attempts = await run(asyncio.gather(*(broker.groups.prepare() for _ in range(2)), return_exceptions=True))
        for attempt in attempts:
            assert isinstance(attempt, Refusal)
            assert attempt.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert await refusal(broker.groups.commit(FIRST, commit_of(1))) is ErrorCode.NOT_COORDINATOR

        disk.heal()
        await run(broker.groups.prepare())
        await commit(broker.groups, FIRST, 1)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.ZSTD])
async def test_events_are_compressed_with_the_configured_codec(tmp_path: Path, codec: int) -> None:
    async with running(tmp_path, {**SETTINGS, "offsets.topic.compression.codec": str(int(codec))}) as broker:
        await commit(await prepared(broker), FIRST, 7)
        partition = broker.partition(OFFSETS_TOPIC, 0)
        read = partition.read(0, 1 << 20, limit_offset=partition._log.end_offset, first_batch_whole=True)
        assert isinstance(read, FileRange)
        assert [header.codec for header, _ in batches.iterate(read.read())] == [codec]
    async with running(tmp_path, SETTINGS) as again:
        assert await committed(await loaded(again), FIRST) == 7


# -- refused commands


async def test_commands_before_the_topic_exists_are_refused(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        groups = broker.groups
        assert await refusal(groups.join(FIRST, join_request())) is ErrorCode.NOT_COORDINATOR
        assert await refusal(groups.committed(FIRST, OffsetQuery(None))) is ErrorCode.NOT_COORDINATOR
        assert await groups.list() == []
        await groups.topic_deleted(ORDERS.topic)
        await groups.expire()
        groups.end_waits()


async def test_an_empty_group_name_is_refused_for_members_and_accepted_for_offsets(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        groups, nameless = await prepared(broker), GroupId("")
        for refused in (
            groups.join(nameless, join_request()),
            groups.sync(nameless, Sync(BOB, None, 1, None, None, {})),
            groups.heartbeat(nameless, BOB, None, 1),
            groups.leave(nameless, [Leave(BOB, None)]),
            groups.describe_consumer(nameless),
            groups.delete_offsets(nameless, [ORDERS]),
        ):
            assert await refusal(refused) is ErrorCode.INVALID_GROUP_ID
        refused = groups.member_heartbeat(nameless, heartbeat("ann", topics=["orders"]))
        assert await refusal(refused) is ErrorCode.INVALID_REQUEST

        await commit(groups, nameless, 7)
        assert await committed(groups, nameless) == 7
        assert (await done(groups.describe_classic(nameless))).state is GroupState.EMPTY
        await done(groups.delete(nameless))
        assert await committed(groups, nameless) is None


async def test_a_refusal_of_the_machine_becomes_the_outcome(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        groups = await prepared(broker)
        assert await refusal(groups.heartbeat(FIRST, BOB, None, 1)) is ErrorCode.UNKNOWN_MEMBER_ID
        assert await refusal(groups.delete(FIRST)) is ErrorCode.GROUP_ID_NOT_FOUND


async def test_the_limit_counts_the_groups_of_all_shards(tmp_path: Path) -> None:
    async with running(tmp_path, {**SETTINGS, "headwater.groups.max": "2"}) as broker:
        groups = await prepared(broker)
        await commit(groups, FIRST, 1)
        await commit(groups, SECOND, 1)
        assert await refusal(groups.commit(THIRD, commit_of(1))) is ErrorCode.GROUP_MAX_SIZE_REACHED
        await commit(groups, FIRST, 2)

        await done(groups.delete(SECOND))
        await commit(groups, THIRD, 1)


# -- members


async def test_a_classic_member_joins_syncs_beats_commits_and_leaves(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        groups = await prepared(broker)
        await stable_classic(groups, FIRST)
        assert await done(groups.heartbeat(FIRST, BOB, None, 1)) is ErrorCode.NONE
        assert await done(groups.commit(FIRST, commit_of(7, member_id=BOB, generation=1))) == [ErrorCode.NONE]
        described = await done(groups.describe_classic(FIRST))
        assert [(member.member_id, member.assignment) for member in described.members] == [(BOB, b"all")]
        assert await done(groups.delete_offsets(FIRST, [ORDERS])) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
        assert await refusal(groups.delete(FIRST)) is ErrorCode.NON_EMPTY_GROUP

        assert await done(groups.leave(FIRST, [Leave(BOB, None)])) == [LeaveResult(BOB, None, ErrorCode.NONE)]
        assert await committed(groups, FIRST) == 7
        assert await done(groups.delete_offsets(FIRST, [ORDERS])) == [ErrorCode.NONE]
        assert await committed(groups, FIRST) is None


async def test_a_consumer_protocol_member_joins_and_leaves(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        groups = await prepared(broker)
        joined = await done(groups.member_heartbeat(SECOND, heartbeat("ann", topics=[ORDERS.topic])))
        topic = broker.topics.find(ORDERS.topic)
        assert topic is not None
        assert joined.assignment == {topic.id: {0}}
        described = await done(groups.describe_consumer(SECOND))
        assert (described.state, described.epoch) == (GroupState.STABLE, 1)
        assert await refusal(groups.describe_classic(SECOND)) is ErrorCode.GROUP_ID_NOT_FOUND

        await done(groups.member_heartbeat(SECOND, heartbeat("ann", LEAVE_EPOCH)))
        assert (await done(groups.describe_consumer(SECOND))).state is GroupState.EMPTY


async def test_a_join_that_waits_for_a_rebalance_is_refused_when_the_broker_stops(tmp_path: Path) -> None:
    async with running(tmp_path, {**SETTINGS, "group.initial.rebalance.delay.ms": "60000"}) as broker:
        groups = await prepared(broker)
        waiting = [groups.join(group_id, join_request(new_member_id=BOB)) for group_id in (FIRST, THIRD)]
        assert not any(join.is_done for join in waiting)
        broker.end_waits()
        assert [await refusal(join) for join in waiting] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2


# -- over all shards


async def test_the_groups_of_all_shards_are_listed(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        groups = await prepared(broker)
        await stable_classic(groups, FIRST)
        await done(groups.member_heartbeat(SECOND, heartbeat("ann", topics=[ORDERS.topic])))
        await commit(groups, THIRD, 1)
        assert [(listing.group_id, listing.type, listing.state) for listing in await groups.list()] == [
            (FIRST, GroupType.CLASSIC, GroupState.STABLE),
            (SECOND, GroupType.CONSUMER, GroupState.STABLE),
            (THIRD, GroupType.CLASSIC, GroupState.EMPTY),
        ]


async def test_offsets_of_a_deleted_topic_are_forgotten_in_all_shards(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        groups = await prepared(broker)
        for group_id in (FIRST, SECOND, THIRD):
            await commit(groups, group_id, 7)
        await run(broker.topics.delete(ORDERS.topic))
        await create(broker, ORDERS.topic)
        assert [await committed(groups, group_id) for group_id in (FIRST, SECOND, THIRD)] == [None] * 3


async def test_unused_offsets_expire_in_all_shards(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    async with running(tmp_path, {**SETTINGS, "offsets.retention.minutes": "1"}, clock=clock) as broker:
        groups = await prepared(broker)
        await commit(groups, FIRST, 7)
        await commit(groups, SECOND, 7)
        clock.advance(59_999)
        await commit(groups, THIRD, 7)
        await run(groups.expire())
        assert len(await groups.list()) == 3

        clock.advance(1)
        await run(groups.expire())
        assert [listing.group_id for listing in await groups.list()] == [THIRD]
