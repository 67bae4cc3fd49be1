"""Classic clients that join a consumer group, or stay in a group that was upgraded to one."""

import pytest

from headwater.config.group_defaults import GroupDefaults
from headwater.coordination.groups.classic.commands import Join, JoinResult, SyncResult
from headwater.coordination.groups.classic.events import SupportedProtocol
from headwater.coordination.groups.consumer.events import CLASSIC_JOIN, CLASSIC_SYNC, REBALANCE, SESSION, MemberState
from headwater.coordination.groups.offsets.commands import Commit
from headwater.coordination.groups.terms import GroupState
from headwater.errors import ErrorCode, Refusal
from headwater.ids import MemberId
from headwater.protocol.consumer_protocol import read_assignment, read_version
from tests.support.coordination.consumer_driver import GROUP, Topics, heartbeat
from tests.support.coordination.migration_driver import (
    CLASSIC_REBALANCE_TIMEOUT_MS,
    CLASSIC_SESSION_TIMEOUT_MS,
    Shard,
    join_request,
)

ANN, BOB = MemberId("ann"), MemberId("bob")


@pytest.fixture
def shard() -> Shard:
    """A consumer group that ann, of the new protocol, has joined."""
    shard = Shard(Topics({"a": 4, "b": 2}))
    shard.heartbeat(heartbeat("ann", topics=["a"]))
    return shard


def code_of(shard: Shard, join: Join) -> ErrorCode:
    with pytest.raises(Refusal) as refused:
        shard.join(join)
    return refused.value.code


def partitions(shard: Shard, member_id: str, generation: int, **options: str) -> dict[str, list[int]]:
    result = shard.sync(member_id, generation, **options)  # type: ignore[arg-type]
    assert result.error is ErrorCode.NONE
    return {str(name): list(numbers) for name, numbers in read_assignment(result.assignment).partitions.items()}


def let_ann_go_on(shard: Shard) -> None:
    for _ in range(2):
        current = shard.consumer.roster.members[ANN].current
        shard.heartbeat(heartbeat("ann", current.epoch, owned=current.assigned))


def test_a_classic_member_joins_and_gets_its_partitions_step_by_step(shard: Shard) -> None:
    joined = shard.join(join_request("bob"))
    assert joined == JoinResult(BOB, ErrorCode.NONE, 2, "consumer", "range")
    assert partitions(shard, "bob", 2) == {}, "ann still has all"
    assert shard.beat("bob", 2) is ErrorCode.NONE, "nothing is free yet"

    let_ann_go_on(shard)
    assert shard.beat("bob", 2) is ErrorCode.REBALANCE_IN_PROGRESS, "now it is"
    assert shard.join(join_request("bob")).generation == 2
    assert partitions(shard, "bob", 2, protocol_type="consumer", protocol="range") == {"a": [2, 3]}
    assert shard.beat("bob", 2) is ErrorCode.NONE
    assert shard.consumer.state is GroupState.STABLE
    described = shard.consumer.describe().members[1]
    assert (described.is_classic, described.client_id, described.topic_names) == (True, "classic", ["a"])


def test_a_new_dynamic_member_first_gets_an_id(shard: Shard) -> None:
    asked = shard.join(join_request(new_member_id="bob", is_member_id_required=True))
    assert asked == JoinResult(BOB, ErrorCode.MEMBER_ID_REQUIRED)
    assert BOB not in shard.consumer.roster.members

    assert shard.join(join_request("bob", is_member_id_required=True)).error is ErrorCode.NONE
    assert shard.join(join_request(new_member_id="old-client")).member_id == "old-client"


def test_the_assignment_is_encoded_in_the_version_of_the_members_metadata(shard: Shard) -> None:
    for version in range(4):
        member_id = f"m{version}"
        generation = shard.join(join_request(member_id, topics=["b"], version=version)).generation
        assert read_version(shard.sync(member_id, generation).assignment) == version


@pytest.mark.parametrize(
    ("join", "code"),
    [
        (join_request("bob", protocol_type="connect"), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (join_request("bob", protocols=[]), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (join_request("bob", protocols=["sticky"]), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (
            join_request("bob")._replace(protocols=[SupportedProtocol("range", b"")]),
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ),
        (join_request("bob")._replace(session_timeout_ms=1), ErrorCode.INVALID_SESSION_TIMEOUT),
        (join_request("bob", instance="unheard-of"), ErrorCode.UNKNOWN_MEMBER_ID),
        (join_request("bob", instance="one"), ErrorCode.FENCED_INSTANCE_ID),
    ],
)
def test_a_join_that_is_refused(shard: Shard, join: Join, code: ErrorCode) -> None:
    shard.join(join_request(new_member_id="cid", instance="one", protocols=["range", "roundrobin"]))

    assert code_of(shard, join) is code


def test_a_full_group_takes_no_classic_member_either() -> None:
    shard = Shard(Topics({"a": 1}), GroupDefaults(group_consumer_max_size=1))
    shard.heartbeat(heartbeat("ann", topics=["a"]))

    assert code_of(shard, join_request("bob")) is ErrorCode.GROUP_MAX_SIZE_REACHED


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "ann", "generation": 1}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation": 1}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation": 3}, ErrorCode.ILLEGAL_GENERATION),
        ({"protocol": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"instance": "unheard-of"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_sync_that_is_refused(shard: Shard, options: dict[str, object], code: ErrorCode) -> None:
    shard.join(join_request("bob"))

    with pytest.raises(Refusal) as refused:
        shard.sync(**{"member_id": "bob", "generation": 2, **options})  # type: ignore[arg-type]
    assert refused.value.code is code


def test_a_heartbeat_that_is_refused(shard: Shard) -> None:
    shard.join(join_request("bob"))

    for member_id, generation, code in [
        ("nobody", 2, ErrorCode.UNKNOWN_MEMBER_ID),
        ("ann", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("bob", 1, ErrorCode.ILLEGAL_GENERATION),
    ]:
        with pytest.raises(Refusal) as refused:
            shard.beat(member_id, generation)
        assert refused.value.code is code


def test_a_classic_member_is_told_of_a_new_epoch_and_has_time_to_rejoin(shard: Shard) -> None:
    shard.join(join_request("bob"))
    shard.sync("bob", 2)
    shard.heartbeat(heartbeat("ann", 1, topics=["a", "b"]))

    assert shard.sync("bob", 2) == SyncResult(ErrorCode.REBALANCE_IN_PROGRESS)
    shard.advance(20_000)
    assert shard.beat("bob", 2) is ErrorCode.REBALANCE_IN_PROGRESS
    shard.advance(20_000)
    assert shard.beat("bob", 2) is ErrorCode.REBALANCE_IN_PROGRESS
    shard.heartbeat(heartbeat("ann", shard.consumer.roster.members[ANN].current.epoch))
    assert (GROUP, CLASSIC_JOIN, BOB) in shard.deadlines

    shard.advance(10_000)
    assert list(shard.consumer.roster.members) == [ANN], "it has not come back in time"


def test_a_rejoined_classic_member_has_a_sync_deadline_instead_of_a_join_deadline(shard: Shard) -> None:
    shard.join(join_request("bob"))
    shard.sync("bob", 2)
    shard.heartbeat(heartbeat("ann", 1, topics=["a", "b"]))
    shard.beat("bob", 2)
    shard.join(join_request("bob"))
    assert (GROUP, CLASSIC_JOIN, BOB) not in shard.deadlines
    assert (GROUP, CLASSIC_SYNC, BOB) in shard.deadlines

    shard.sync("bob", 3)
    assert (GROUP, CLASSIC_SYNC, BOB) not in shard.deadlines


def test_a_classic_member_that_does_not_sync_in_time_is_removed(shard: Shard) -> None:
    shard.join(join_request("bob"))
    for _ in range(5):
        shard.advance(CLASSIC_REBALANCE_TIMEOUT_MS // 5 - 1)
        shard.beat("bob", 2)
        let_ann_go_on(shard)
    assert BOB in shard.consumer.roster.members

    shard.advance(5)
    assert BOB not in shard.consumer.roster.members


def test_a_silent_classic_member_is_removed_after_its_own_session_time_out(shard: Shard) -> None:
    shard.join(join_request("bob"))
    shard.sync("bob", 2)
    shard.advance(CLASSIC_SESSION_TIMEOUT_MS - 1)
    assert BOB in shard.consumer.roster.members
    shard.advance(1)
    assert BOB not in shard.consumer.roster.members


def test_a_cooperative_member_revokes_partitions_by_rejoining_without_them(shard: Shard) -> None:
    shard.join(join_request("bob"))
    let_ann_go_on(shard)
    shard.join(join_request("bob"))
    assert partitions(shard, "bob", 2) == {"a": [2, 3]}
    shard.heartbeat(heartbeat("cid", topics=["a"]))
    assert shard.beat("bob", 2) is ErrorCode.REBALANCE_IN_PROGRESS

    assert shard.join(join_request("bob", owned={"a": [2, 3]})).generation == 2
    assert (GROUP, REBALANCE, BOB) not in shard.deadlines
    left = partitions(shard, "bob", 2)
    assert len(left["a"]) == 1
    assert shard.beat("bob", 2) is ErrorCode.REBALANCE_IN_PROGRESS, "still to confirm that it let go"
    assert shard.join(join_request("bob", owned=left)).generation == 3
    assert partitions(shard, "bob", 3) == left


def test_a_static_classic_member_returns_with_another_id_and_its_partitions(shard: Shard) -> None:
    shard.join(join_request(new_member_id="bob", instance="one"))
    let_ann_go_on(shard)
    shard.join(join_request("bob", instance="one"))
    assert partitions(shard, "bob", 2, instance="one") == {"a": [2, 3]}

    again = shard.join(join_request(new_member_id="cid", instance="one", owned={"a": [2, 3]}))

    assert (again.member_id, again.generation) == ("cid", 2)
    assert partitions(shard, "cid", 2, instance="one") == {"a": [2, 3]}
    with pytest.raises(Refusal) as refused:
        shard.beat("bob", 2, "one")
    assert refused.value.code is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_may_return_with_the_other_protocol(shard: Shard) -> None:
    shard.join(join_request(new_member_id="bob", instance="one"))
    shard.heartbeat(heartbeat("cid", topics=["a"], instance="one"))

    members = shard.consumer.roster.members
    assert set(members) == {"ann", "cid"}
    assert members[MemberId("cid")].details.classic is None


def test_a_member_that_changes_to_the_new_protocol_has_no_join_or_sync_deadline(shard: Shard) -> None:
    shard.join(join_request("bob"))
    shard.heartbeat(heartbeat("bob", topics=["a"]))

    assert shard.consumer.roster.members[BOB].details.classic is None
    assert (GROUP, CLASSIC_SYNC, BOB) not in shard.deadlines
    assert (GROUP, SESSION, BOB) in shard.deadlines


def test_the_rack_and_the_time_outs_of_a_classic_member_are_kept(shard: Shard) -> None:
    shard.join(join_request("bob", rack="east")._replace(rebalance_timeout_ms=-1))

    details = shard.consumer.roster.members[BOB].details
    assert (details.rack_id, details.rebalance_timeout_ms) == ("east", CLASSIC_SESSION_TIMEOUT_MS)


def test_leave_group_removes_members_of_either_protocol(shard: Shard) -> None:
    shard.join(join_request("bob"))
    shard.join(join_request(new_member_id="cid", instance="one"))
    shard.heartbeat(heartbeat("dan", topics=["a"], instance="two"))

    assert shard.leave(("nobody", None), ("ann", "one"), ("", "three")) == [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    epoch = shard.consumer.roster.epoch
    assert shard.leave(("bob", None), ("bob", None), ("", "one"), ("ann", None)) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
        ErrorCode.NONE,
    ]
    assert list(shard.consumer.roster.members) == ["dan"]
    assert shard.consumer.roster.epoch == epoch + 1


def test_a_classic_member_commits_with_its_generation(shard: Shard) -> None:
    shard.join(join_request("bob"))
    consumer, now = shard.consumer, shard.now

    consumer.decide_commit(Commit(BOB, None, 2, (), knows_epochs=False), is_transactional=False, now=now)
    with pytest.raises(Refusal) as refused:
        consumer.decide_commit(Commit(BOB, None, 1, ()), is_transactional=False, now=now)
    assert refused.value.code is ErrorCode.ILLEGAL_GENERATION


def test_after_a_load_a_classic_member_keeps_its_own_session_time_out(shard: Shard) -> None:
    shard.join(join_request("bob"))
    loaded = Shard(shard.topics, log=shard.log)

    loaded.advance(CLASSIC_SESSION_TIMEOUT_MS)
    assert list(loaded.consumer.roster.members) == [ANN]
    assert loaded.consumer.roster.members[ANN].current.state is MemberState.STABLE
