"""Groups over all shards: which of them keeps a group, when it can be asked, and what a restart brings back."""

import asyncio
import errno
from pathlib import Path
from typing import Any, TypeVar

import pytest

from headwater.broker.broker import Broker
from headwater.broker.groups import Groups
from headwater.broker.pending import Pending
from headwater.broker.shard import Outcome
from headwater.broker.sharding import partition_of
from headwater.clock import ManualClock
from headwater.coordination.groups.commands import (
    LEAVE_EPOCH,
    NO_GENERATION,
    NO_MEMBER,
    Commit,
    FoundOffset,
    GroupState,
    GroupType,
    Leaving,
    Left,
    OffsetsAsked,
    OffsetToCommit,
    Sync,
)
from headwater.coordination.topics import OFFSETS_TOPIC
from headwater.errors import ErrorCode, HeadwaterError, KafkaError
from headwater.ids import NO_TOPIC_ID, GroupId, MemberId, ProducerId, TopicId, TopicName, TopicPartition
from headwater.protocol import batch as batches
from headwater.protocol.compression import Codec
from tests.broker.faulty_disk import FULL, FaultyDisk, FaultyFile
from tests.broker.running import NOW_MS, crash, create, run, running, start
from tests.coordination.groups.consumer.driver import heartbeat
from tests.coordination.groups.migration.driver import join_request

ResultT = TypeVar("ResultT")

SHARDS = 3
SETTINGS = {"offsets.topic.num.partitions": str(SHARDS), "group.initial.rebalance.delay.ms": "0"}
BOB = MemberId("bob")
ORDERS = TopicPartition(TopicName("orders"), 0)


def named(shard: int) -> GroupId:
    """A group that this shard keeps."""
    return next(GroupId(name) for name in map(str, range(100)) if partition_of(name, SHARDS) == shard)


FIRST, SECOND, THIRD = map(named, range(SHARDS))


async def done(pending: Pending[Outcome[ResultT]]) -> ResultT:
    outcome = await run(pending.wait())
    if isinstance(outcome, HeadwaterError):
        raise outcome
    return outcome


async def refusal(pending: Pending[Any]) -> ErrorCode:
    outcome = await run(pending.wait())
    assert isinstance(outcome, HeadwaterError)
    return outcome.code


async def loaded(broker: Broker) -> Groups:
    assert broker.groups._loading is not None
    await run(broker.groups._loading)
    return broker.groups


def commit_of(
    offset: int,
    *,
    member_id: str = NO_MEMBER,
    generation: int = NO_GENERATION,
    topic_id: TopicId = NO_TOPIC_ID,
) -> Commit:
    committed = OffsetToCommit(ORDERS.topic, ORDERS.partition, offset, -1, "", topic_id)
    return Commit(MemberId(member_id), None, generation, [committed])


async def commit(groups: Groups, group_id: GroupId, offset: int) -> None:
    assert await done(groups.commit(group_id, commit_of(offset))) == [ErrorCode.NONE]


async def committed(groups: Groups, group_id: GroupId) -> int | None:
    ((partition, found, error),) = await done(groups.committed(group_id, OffsetsAsked([ORDERS])))
    assert (partition, error) == (ORDERS, ErrorCode.NONE)
    return None if found is None else found.offset


async def prepared(broker: Broker) -> Groups:
    await create(broker, ORDERS.topic)
    await run(broker.groups.prepare())
    return broker.groups


async def stable_classic(groups: Groups, group_id: GroupId) -> None:
    """A group of bob alone, at generation 1."""
    joined = await done(groups.join(group_id, join_request(new_member_id=BOB, topics=[ORDERS.topic])))
    assert joined.generation == 1
    synced = await done(groups.sync(group_id, Sync(BOB, None, 1, None, None, {BOB: b"all"})))
    assert synced.assignment == b"all"


# -- which shard


@pytest.mark.parametrize(
    ("group_id", "java_hash"),
    [
        ("", 0),
        ("a", 97),
        ("ab", 97 * 31 + 98),
        ("hello", 99162322),
        ("Hello World", -862545276),
        # Beyond 16 bits Java sees two characters; one half alone is a character, too.
        ("\N{GRINNING FACE}", 0xD83D * 31 + 0xDE00),
        ("\ud800", 0xD800),
        # The one hash that has no absolute value.
        ("polygenelubricants", 0),
    ],
)
@pytest.mark.parametrize("partition_count", [1, 3, 50])
def test_a_group_is_where_every_tool_looks_for_it(group_id: str, java_hash: int, partition_count: int) -> None:
    assert partition_of(group_id, partition_count) == abs(java_hash) % partition_count


# -- the topic that groups are kept in


async def test_the_topic_is_made_for_the_first_who_looks_for_a_coordinator(tmp_path: Path) -> None:
    async with running(tmp_path, {**SETTINGS, "offsets.topic.segment.bytes": "12345678"}) as broker:
        assert broker.topic(OFFSETS_TOPIC) is None
        assert broker.groups.shards == []
        await run(broker.groups.prepare())

        topic = broker.topic(OFFSETS_TOPIC)
        assert topic is not None
        assert topic.partition_count == len(broker.groups.shards) == SHARDS
        config = broker.partition(OFFSETS_TOPIC, 0).config
        assert config.cleanup_policy == {"compact"}
        assert config.segment_bytes == 12_345_678
        assert config.compression_type == "producer"


async def test_many_who_look_at_once_make_it_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with running(tmp_path, SETTINGS) as broker:
        await run(asyncio.gather(*(broker.groups.prepare() for _ in range(5))))
        shards = broker.groups.shards
        await run(broker.groups.prepare())
        assert broker.groups.shards is shards
        assert all(shard.machine is not None for shard in shards)
    assert caplog.text.count("created topic __consumer_offsets") == 1


async def test_a_disk_that_refuses_the_topic_is_reported_and_the_next_attempt_succeeds(tmp_path: Path) -> None:
    disk = FaultyDisk()
    disk.cursed, disk.create_error = OFFSETS_TOPIC, FULL
    async with running(tmp_path, SETTINGS, disk=disk) as broker:
        attempts = await run(asyncio.gather(*(broker.groups.prepare() for _ in range(2)), return_exceptions=True))
        for attempt in attempts:
            assert isinstance(attempt, KafkaError)
            assert attempt.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert await refusal(broker.groups.commit(FIRST, commit_of(1))) is ErrorCode.NOT_COORDINATOR

        disk.heal()
        await run(broker.groups.prepare())
        await commit(broker.groups, FIRST, 1)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.ZSTD])
async def test_events_are_compressed_as_the_broker_is_told(tmp_path: Path, codec: int) -> None:
    async with running(tmp_path, {**SETTINGS, "offsets.topic.compression.codec": str(int(codec))}) as broker:
        await commit(await prepared(broker), FIRST, 7)
        partition = broker.partition(OFFSETS_TOPIC, 0)
        read = partition.read(0, 1 << 20, limit_offset=partition.log.end_offset, first_batch_whole=True)
        assert read is not None
        assert [header.codec for header, _ in batches.iterate(read.read())] == [codec]
    async with running(tmp_path, SETTINGS) as again:
        assert await committed(await loaded(again), FIRST) == 7


# -- what cannot be asked


async def test_commands_before_anybody_has_looked_for_a_coordinator_are_refused(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        groups = broker.groups
        assert await refusal(groups.join(FIRST, join_request())) is ErrorCode.NOT_COORDINATOR
        assert await refusal(groups.committed(FIRST, OffsetsAsked(None))) is ErrorCode.NOT_COORDINATOR
        assert await groups.list() == []
        await groups.topics_deleted([ORDERS.topic])
        await groups.expire()
        groups.end_waits()


async def test_members_need_a_group_with_a_name_and_offsets_do_not(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        groups, nameless = await prepared(broker), GroupId("")
        for refused in (
            groups.join(nameless, join_request()),
            groups.sync(nameless, Sync(BOB, None, 1, None, None, {})),
            groups.heartbeat(nameless, BOB, None, 1),
            groups.leave(nameless, [Leaving(BOB, None)]),
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


async def test_refusals_of_the_machine_are_outcomes(tmp_path: Path) -> None:
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

        assert await done(groups.leave(FIRST, [Leaving(BOB, None)])) == [Left(BOB, None, ErrorCode.NONE)]
        assert await committed(groups, FIRST) == 7
        assert await done(groups.delete_offsets(FIRST, [ORDERS])) == [ErrorCode.NONE]
        assert await committed(groups, FIRST) is None


async def test_a_member_of_the_next_generation_joins_and_leaves(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        groups = await prepared(broker)
        joined = await done(groups.member_heartbeat(SECOND, heartbeat("ann", topics=[ORDERS.topic])))
        topic = broker.topic(ORDERS.topic)
        assert topic is not None
        assert joined.assignment == {topic.id: {0}}
        described = await done(groups.describe_consumer(SECOND))
        assert (described.state, described.epoch) == (GroupState.STABLE, 1)
        assert await refusal(groups.describe_classic(SECOND)) is ErrorCode.GROUP_ID_NOT_FOUND

        await done(groups.member_heartbeat(SECOND, heartbeat("ann", LEAVE_EPOCH)))
        assert (await done(groups.describe_consumer(SECOND))).state is GroupState.EMPTY


async def test_whoever_waits_for_a_rebalance_is_sent_away_when_the_broker_stops(tmp_path: Path) -> None:
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
        await run(broker.delete_topic(ORDERS.topic))
        await create(broker, ORDERS.topic)
        assert [await committed(groups, group_id) for group_id in (FIRST, SECOND, THIRD)] == [None] * 3


async def test_what_nobody_uses_expires_in_all_shards(tmp_path: Path) -> None:
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


# -- offsets inside transactions

PRODUCER = ProducerId(7)


async def commit_in_transaction(groups: Groups, group_id: GroupId, offset: int, *, epoch: int = 0) -> None:
    codes = await done(groups.commit_in_transaction(group_id, commit_of(offset), PRODUCER, epoch))
    assert codes == [ErrorCode.NONE]


def end_transaction(groups: Groups, shard: int, *, epoch: int = 0, is_committed: bool = True) -> Pending[Outcome[None]]:
    return groups.end_transaction(shard, PRODUCER, epoch, 0, is_committed)


async def stable(groups: Groups, group_id: GroupId) -> FoundOffset:
    (found,) = await done(groups.committed(group_id, OffsetsAsked([ORDERS], require_stable=True)))
    return found


async def test_a_transaction_ends_in_each_shard_by_itself(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        groups = await prepared(broker)
        for group_id in (FIRST, SECOND):
            await commit(groups, group_id, 1)
            await commit_in_transaction(groups, group_id, 5)
        await done(end_transaction(groups, 0))

        assert await committed(groups, FIRST) == 5
        assert await committed(groups, SECOND) == 1
        assert await stable(groups, SECOND) == FoundOffset(ORDERS, None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        await done(end_transaction(groups, 1, is_committed=False))
        assert (await stable(groups, SECOND)).committed is not None
        assert await committed(groups, SECOND) == 1


@pytest.mark.parametrize("cleanly", [True, False])
@pytest.mark.parametrize("is_committed", [True, False])
async def test_a_transaction_goes_on_after_a_restart(tmp_path: Path, cleanly: bool, is_committed: bool) -> None:
    broker = start(tmp_path, SETTINGS)
    groups = await prepared(broker)
    await commit(groups, FIRST, 1)
    await commit_in_transaction(groups, FIRST, 5)
    await (broker.stop() if cleanly else crash(broker))

    async with running(tmp_path, SETTINGS) as again:
        groups = await loaded(again)
        assert await committed(groups, FIRST) == 1
        assert (await stable(groups, FIRST)).error is ErrorCode.UNSTABLE_OFFSET_COMMIT
        await done(end_transaction(groups, 0, is_committed=is_committed))
        assert await committed(groups, FIRST) == (5 if is_committed else 1)
    async with running(tmp_path, SETTINGS) as once_more:
        assert await committed(await loaded(once_more), FIRST) == (5 if is_committed else 1)


async def test_all_that_is_asked_in_a_turn_is_answered_in_its_order(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        groups = await prepared(broker)
        asked: list[Pending[Any]] = [
            groups.commit(FIRST, commit_of(1)),
            groups.commit_in_transaction(FIRST, commit_of(2), PRODUCER, 0),
            end_transaction(groups, 0),
            groups.commit_in_transaction(FIRST, commit_of(3), PRODUCER, 0),
            end_transaction(groups, 0, is_committed=False),
        ]
        told: list[Any] = []
        for pending in asked:
            pending.then(told.append)
        assert await committed(groups, FIRST) == 2
        taken = [ErrorCode.NONE]
        assert told == [taken, taken, None, taken, None]


async def test_a_producer_that_was_replaced_is_refused_and_nobody_else_notices(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        groups = await prepared(broker)
        machine = groups.shards[0].machine
        await commit_in_transaction(groups, FIRST, 5, epoch=1)
        # The end and what comes too late for it, in one turn.
        ended = end_transaction(groups, 0, epoch=2, is_committed=False)
        late = groups.commit_in_transaction(FIRST, commit_of(6), PRODUCER, 1)
        await done(ended)
        assert await refusal(late) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert await refusal(end_transaction(groups, 0, epoch=1)) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert groups.shards[0].machine is machine
        assert await stable(groups, FIRST) == FoundOffset(ORDERS, None)


async def test_offsets_of_a_transaction_need_a_group_and_its_end_a_partition(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        assert await refusal(end_transaction(broker.groups, 0)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        groups = await prepared(broker)
        for shard in (-1, SHARDS):
            assert await refusal(end_transaction(groups, shard)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        nameless = groups.commit_in_transaction(GroupId(""), commit_of(1), PRODUCER, 0)
        assert await refusal(nameless) is ErrorCode.INVALID_GROUP_ID
        stale = groups.commit_in_transaction(FIRST, commit_of(1, member_id=BOB, generation=1), PRODUCER, 0)
        assert await refusal(stale) is ErrorCode.ILLEGAL_GENERATION


# -- restarts


@pytest.mark.parametrize("cleanly", [True, False])
async def test_everything_that_was_answered_is_there_again(tmp_path: Path, cleanly: bool) -> None:
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


async def test_the_number_of_shards_is_that_of_the_topic_whatever_the_settings_say_now(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        await commit(await prepared(broker), THIRD, 3)
    async with running(tmp_path, {**SETTINGS, "offsets.topic.num.partitions": "7"}) as again:
        groups = await loaded(again)
        await run(groups.prepare())
        assert len(groups.shards) == SHARDS
        assert await committed(groups, THIRD) == 3


async def test_commands_wait_for_no_shard_that_is_still_loaded(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        await commit(await prepared(broker), FIRST, 1)
    async with running(tmp_path, SETTINGS) as again:
        asked = again.groups.committed(FIRST, OffsetsAsked(None))
        with pytest.raises(KafkaError) as refused:
            await again.groups.list()
        assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await refusal(asked) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await committed(await loaded(again), FIRST) == 1


async def test_a_broker_that_stops_while_it_loads_loses_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        await commit(await prepared(broker), THIRD, 1)
    broker = start(tmp_path, SETTINGS)
    await asyncio.sleep(0)
    loading = broker.groups._loading
    assert loading is not None
    assert not loading.done()
    # At once, or it would be loaded in the meantime.
    await broker.groups.stop()
    assert loading.cancelled()
    await run(broker.stop())
    assert await refusal(broker.groups.commit(THIRD, commit_of(2))) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    async with running(tmp_path, SETTINGS) as again:
        assert await committed(await loaded(again), THIRD) == 1


async def test_a_topic_does_not_get_the_offsets_of_one_that_had_its_name(tmp_path: Path) -> None:
    """Even where the broker died between the end of the topic and that of its offsets."""
    broker = start(tmp_path, SETTINGS)
    groups = await prepared(broker)
    topic_id = broker.catalog.topics.by_name[ORDERS.topic].id
    assert await done(groups.commit(FIRST, commit_of(7, topic_id=topic_id))) == [ErrorCode.NONE]
    await run(broker.catalog.delete(ORDERS.topic))
    await crash(broker)
    async with running(tmp_path, SETTINGS) as again:
        groups = await loaded(again)
        assert await committed(groups, FIRST) == 7, "the topic may be restored yet"
        await create(again, ORDERS.topic)
        assert await committed(groups, FIRST) is None
    async with running(tmp_path, SETTINGS) as restarted:
        assert await committed(await loaded(restarted), FIRST) is None


class Ticking(ManualClock):
    """A second passes whenever somebody looks."""

    def monotonic_ms(self) -> int:
        self.advance(1000)
        return super().monotonic_ms()


async def test_a_long_load_says_how_far_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with running(tmp_path, SETTINGS) as broker:
        await commit(await prepared(broker), THIRD, 1)
    async with running(tmp_path, SETTINGS, clock=Ticking()) as again:
        await loaded(again)
    assert f"of {SHARDS} partitions of __consumer_offsets" in caplog.text
    assert "loaded 1 records of __consumer_offsets" in caplog.text


# -- damage


async def two_shards_filled(path: Path) -> Path:
    """Gives the log of the first."""
    async with running(path, SETTINGS) as broker:
        groups = await prepared(broker)
        await commit(groups, FIRST, 1)
        await commit(groups, SECOND, 2)
        (log,) = broker.partition(OFFSETS_TOPIC, 0).log.directory.glob("*.log")
        return log


async def check_others_go_on(broker: Broker) -> None:
    groups = await loaded(broker)
    assert await refusal(groups.committed(FIRST, OffsetsAsked(None))) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await refusal(groups.commit(FIRST, commit_of(9))) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await committed(groups, SECOND) == 2
    await commit(groups, SECOND, 3)
    with pytest.raises(HeadwaterError):
        await groups.list()
    await run(groups.topics_deleted([ORDERS.topic]))
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
