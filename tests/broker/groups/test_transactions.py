"""Offsets that groups commit inside transactions, over all shards."""

from pathlib import Path
from typing import Any

import pytest

from headwater.broker.groups.coordinator import GroupCoordinator
from headwater.broker.pending import Pending
from headwater.broker.shards.shard import Outcome
from headwater.coordination.groups.offsets.commands import FoundOffset, OffsetQuery
from headwater.errors import ErrorCode
from headwater.ids import GroupId, ProducerId
from tests.broker.groups.group_commands import (
    BOB,
    FIRST,
    ORDERS,
    SECOND,
    SETTINGS,
    SHARDS,
    commit,
    commit_of,
    committed,
    done,
    loaded,
    prepared,
    refusal,
)
from tests.support.broker.embedded_broker import crash, running, start

PRODUCER = ProducerId(7)


async def commit_in_transaction(groups: GroupCoordinator, group_id: GroupId, offset: int, *, epoch: int = 0) -> None:
    codes = await done(groups.commit_in_transaction(group_id, commit_of(offset), PRODUCER, epoch))
    assert codes == [ErrorCode.NONE]


def end_transaction(
    groups: GroupCoordinator, shard: int, *, epoch: int = 0, is_committed: bool = True
) -> Pending[Outcome[None]]:
    return groups.end_transaction(shard, PRODUCER, epoch, 0, is_committed, 1)


async def stable(groups: GroupCoordinator, group_id: GroupId) -> FoundOffset:
    (found,) = await done(groups.committed(group_id, OffsetQuery([ORDERS], require_stable=True)))
    return found


async def test_the_end_of_a_transaction_takes_effect_in_each_shard_separately(tmp_path: Path) -> None:
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
async def test_an_open_transaction_continues_after_a_restart(tmp_path: Path, cleanly: bool, is_committed: bool) -> None:
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


async def test_commands_of_one_turn_are_answered_in_order(tmp_path: Path) -> None:
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


async def test_a_fenced_producer_is_refused_and_other_commands_of_the_turn_succeed(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        groups = await prepared(broker)
        machine = groups.shards[0].machine
        await commit_in_transaction(groups, FIRST, 5, epoch=1)
        # The marker and an offset commit that comes too late for it, in one turn.
        ended = end_transaction(groups, 0, epoch=2, is_committed=False)
        late = groups.commit_in_transaction(FIRST, commit_of(6), PRODUCER, 1)
        await done(ended)
        assert await refusal(late) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert await refusal(end_transaction(groups, 0, epoch=1)) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert groups.shards[0].machine is machine
        assert await stable(groups, FIRST) == FoundOffset(ORDERS, None)


async def test_offsets_of_an_empty_group_and_markers_of_an_unknown_partition_are_refused(tmp_path: Path) -> None:
    async with running(tmp_path, SETTINGS) as broker:
        assert await refusal(end_transaction(broker.groups, 0)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        groups = await prepared(broker)
        for shard in (-1, SHARDS):
            assert await refusal(end_transaction(groups, shard)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        nameless = groups.commit_in_transaction(GroupId(""), commit_of(1), PRODUCER, 0)
        assert await refusal(nameless) is ErrorCode.INVALID_GROUP_ID
        stale = groups.commit_in_transaction(FIRST, commit_of(1, member_id=BOB, generation=1), PRODUCER, 0)
        assert await refusal(stale) is ErrorCode.ILLEGAL_GENERATION
