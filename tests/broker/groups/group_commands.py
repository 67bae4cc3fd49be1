"""Commands to groups over all shards of a broker, and one group for each shard."""

from typing import Any, TypeVar

from headwater.broker.broker import Broker
from headwater.broker.groups.coordinator import GroupCoordinator
from headwater.broker.pending import Pending
from headwater.broker.shards.shard import Outcome
from headwater.broker.shards.sharded_topic import partition_of
from headwater.coordination.groups.classic.commands import NO_GENERATION, Sync
from headwater.coordination.groups.offsets.commands import Commit, OffsetQuery, OffsetToCommit
from headwater.coordination.groups.terms import NO_MEMBER
from headwater.errors import ErrorCode, HeadwaterError
from headwater.ids import NO_TOPIC_ID, GroupId, MemberId, TopicId, TopicName, TopicPartition
from tests.support.broker.embedded_broker import create, run
from tests.support.coordination.migration_driver import join_request

ResultT = TypeVar("ResultT")

SHARDS = 3
SETTINGS = {"offsets.topic.num.partitions": str(SHARDS), "group.initial.rebalance.delay.ms": "0"}
BOB = MemberId("bob")
ORDERS = TopicPartition(TopicName("orders"), 0)


def named(shard: int) -> GroupId:
    """The id of a group whose coordinator is this shard."""
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


async def loaded(broker: Broker) -> GroupCoordinator:
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


async def commit(groups: GroupCoordinator, group_id: GroupId, offset: int) -> None:
    assert await done(groups.commit(group_id, commit_of(offset))) == [ErrorCode.NONE]


async def committed(groups: GroupCoordinator, group_id: GroupId) -> int | None:
    ((partition, found, error),) = await done(groups.committed(group_id, OffsetQuery([ORDERS])))
    assert (partition, error) == (ORDERS, ErrorCode.NONE)
    return None if found is None else found.offset


async def prepared(broker: Broker) -> GroupCoordinator:
    await create(broker, ORDERS.topic)
    await run(broker.groups.prepare())
    return broker.groups


async def stable_classic(groups: GroupCoordinator, group_id: GroupId) -> None:
    """A stable classic group whose only member is bob, at generation 1."""
    joined = await done(groups.join(group_id, join_request(new_member_id=BOB, topics=[ORDERS.topic])))
    assert joined.generation == 1
    synced = await done(groups.sync(group_id, Sync(BOB, None, 1, None, None, {BOB: b"all"})))
    assert synced.assignment == b"all"
