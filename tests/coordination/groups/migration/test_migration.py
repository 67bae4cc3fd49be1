"""A live group changes its protocol: it is upgraded by the first new client and downgraded when the last one leaves."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from headwater.config.group_defaults import GroupDefaults
from headwater.coordination.decisions import VOLATILE_TYPES
from headwater.coordination.groups.classic.commands import JoinResult, SyncResult
from headwater.coordination.groups.classic.events import ClassicGroupForgotten, GenerationStored, SupportedProtocol
from headwater.coordination.groups.consumer.commands import LEAVE_EPOCH, LEAVE_STATIC_EPOCH
from headwater.coordination.groups.consumer.events import ConsumerGroupForgotten, ConsumerGroupStored
from headwater.coordination.groups.terms import GroupState
from headwater.errors import ErrorCode, Refusal
from headwater.ids import MemberId, TopicName
from headwater.protocol.consumer_protocol import read_assignment, write_assignment
from tests.support.coordination.consumer_driver import SESSION_TIMEOUT_MS, Topics, heartbeat
from tests.support.coordination.migration_driver import Shard, join_request

ANN, BOB, CID = MemberId("ann"), MemberId("bob"), MemberId("cid")


def settings(policy: str = "bidirectional") -> GroupDefaults:
    return GroupDefaults(group_initial_rebalance_delay_ms=0, group_consumer_migration_policy=policy)


def assigned(**partitions: Sequence[int]) -> bytes:
    return write_assignment({TopicName(name): numbers for name, numbers in partitions.items()})


def read(assignment: bytes) -> dict[str, list[int]]:
    return {str(name): list(numbers) for name, numbers in read_assignment(assignment).partitions.items()}


def classic_pair(shard: Shard, bob: bytes = assigned(a=[0, 1]), cid: bytes = assigned(a=[2, 3])) -> None:
    """A stable classic group of bob, who leads, and cid, at generation 2."""
    ticket = shard.join(join_request(new_member_id="bob", protocols=["range", "roundrobin"]))
    shard.advance(0)
    assert shard.answers[ticket].generation == 1
    shard.join(join_request(new_member_id="cid", protocols=["range", "roundrobin"]))
    shard.join(join_request("bob", protocols=["range", "roundrobin"]))
    shard.sync("cid", 2)
    shard.sync("bob", 2, assignments={BOB: bob, CID: cid})
    assert shard.classic.state is GroupState.STABLE


@pytest.fixture
def shard() -> Shard:
    return Shard(Topics({"a": 4, "b": 1}), settings())


# -- upward


def test_an_upgraded_group_keeps_its_members_and_their_partitions(shard: Shard) -> None:
    classic_pair(shard)

    joined = shard.heartbeat(heartbeat("ann", topics=["a"]))

    assert (joined.epoch, joined.assignment) == (3, {})
    described = {member.member_id: member for member in shard.consumer.describe().members}
    a = shard.topics.id_of("a")
    assert described[BOB].assigned == {a: frozenset({0, 1})}
    assert described[CID].assigned == {a: frozenset({2, 3})}
    assert described[BOB].is_classic
    assert not described[ANN].is_classic
    assert (described[BOB].epoch, shard.consumer.roster.epoch) == (2, 3)
    assert shard.beat("bob", 2) is ErrorCode.REBALANCE_IN_PROGRESS
    shard.advance(SESSION_TIMEOUT_MS - 1)
    assert list(shard.consumer.roster.members) == [ANN], "classic members have the sessions that they asked for"


def test_the_events_of_an_upgrade_replace_one_group_by_the_other(shard: Shard) -> None:
    classic_pair(shard)
    start = len(shard.log)
    shard.heartbeat(heartbeat("ann", topics=["a"]))

    assert isinstance(shard.log[start], ClassicGroupForgotten)
    assert isinstance(shard.log[start + 1], ConsumerGroupStored)
    assert {kind for _, kind, _ in shard.deadlines._due_ms} == {"consumer-session"}
    assert Shard(shard.topics, settings(), shard.log).consumer.describe() == shard.consumer.describe()


def test_an_upgrade_tells_members_that_wait_in_a_join_to_rejoin(shard: Shard) -> None:
    classic_pair(shard)
    waiting = shard.join(join_request("bob", protocols=["range", "roundrobin"]))
    shard.heartbeat(heartbeat("ann", topics=["a"]))
    assert shard.answers[waiting] == JoinResult(BOB, ErrorCode.REBALANCE_IN_PROGRESS)

    assert shard.join(join_request("bob", owned={"a": [0, 1]})).error is ErrorCode.NONE


def test_an_upgrade_tells_members_that_wait_in_a_sync_to_rejoin(shard: Shard) -> None:
    classic_pair(shard)
    first = shard.join(join_request("bob", topics=["a", "b"], protocols=["range", "roundrobin"]))
    shard.join(join_request("cid", protocols=["range", "roundrobin"]))
    assert shard.answers[first].generation == 3
    waiting = shard.sync("cid", 3)

    shard.heartbeat(heartbeat("ann", topics=["a"]))

    assert shard.answers[waiting] == SyncResult(ErrorCode.REBALANCE_IN_PROGRESS)
    assert shard.consumer.roster.members[BOB].details.topic_names == {"a", "b"}


def test_a_group_without_a_generation_is_upgraded_too(shard: Shard) -> None:
    waiting = shard.join(join_request(new_member_id="bob", protocols=["sticky"]))

    assert shard.heartbeat(heartbeat("ann", topics=["a"])).epoch == 1
    assert shard.answers[waiting].error is ErrorCode.REBALANCE_IN_PROGRESS
    assert set(shard.consumer.roster.members) == {"ann", "bob"}


def test_an_empty_classic_group_is_upgraded_under_any_policy() -> None:
    shard = Shard(Topics({"a": 4}), settings("disabled"))
    classic_pair(shard)
    shard.leave(("bob", None), ("cid", None))

    assert shard.heartbeat(heartbeat("ann", topics=["a"])).epoch == 1
    assert list(shard.consumer.roster.members) == [ANN]


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_the_migration_policy_may_forbid_an_upgrade(policy: str) -> None:
    shard = Shard(Topics({"a": 4}), settings(policy))
    classic_pair(shard)

    assert upgrade_refused(shard) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_of_another_protocol_type_is_not_upgraded(shard: Shard) -> None:
    shard.join(join_request(new_member_id="worker", protocol_type="connect"))

    assert upgrade_refused(shard) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_above_the_size_limit_is_not_upgraded() -> None:
    shard = Shard(Topics({"a": 4}), replace(settings(), group_consumer_max_size=1))
    classic_pair(shard)

    assert upgrade_refused(shard) is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("is_assignment", [True, False])
def test_a_group_with_unreadable_subscriptions_is_not_upgraded(shard: Shard, is_assignment: bool) -> None:
    if is_assignment:
        classic_pair(shard, bob=b"\x00")
    else:
        garbage = [SupportedProtocol("range", b"\xff\xff")]
        shard.join(join_request(new_member_id="bob")._replace(protocols=garbage))

    assert upgrade_refused(shard) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_partition_that_a_classic_leader_gave_to_two_members_has_one_owner_again(shard: Shard) -> None:
    classic_pair(shard, cid=assigned(a=[1, 2, 3], gone=[0]))
    shard.heartbeat(heartbeat("ann", topics=["a"]))

    held = [member.assigned for member in shard.consumer.describe().members]
    assert sorted(number for each in held for numbers in each.values() for number in numbers) == [0, 1, 2, 3]


def upgrade_refused(shard: Shard) -> ErrorCode:
    before = shard.classic
    with pytest.raises(Refusal) as refused:
        shard.heartbeat(heartbeat("ann", topics=["a"]))
    assert shard.group is before
    return refused.value.code


# -- downward


def mixed(shard: Shard, **options: str) -> None:
    """A stable consumer group of ann, and of bob and cid who speak the classic protocol; epoch 4."""
    shard.heartbeat(heartbeat("ann", topics=["a"], **options))  # type: ignore[arg-type]
    shard.join(join_request("bob", protocols=["sticky", "range"]))
    shard.join(join_request("cid", protocols=["range", "sticky"]))
    for _ in range(3):
        current = shard.consumer.roster.members[ANN].current
        shard.heartbeat(heartbeat("ann", current.epoch, owned=current.assigned))
        for member_id, protocols in [("bob", ["sticky", "range"]), ("cid", ["range", "sticky"])]:
            generation = shard.join(join_request(member_id, protocols=protocols)).generation
            shard.sync(member_id, generation)
    assert shard.consumer.state is GroupState.STABLE


def test_the_last_new_member_leaves_and_the_group_is_a_classic_one_that_rebalances(shard: Shard) -> None:
    mixed(shard)
    epoch, targets = shard.consumer.roster.epoch, dict(shard.consumer.roster.targets)
    start = len(shard.log)

    shard.heartbeat(heartbeat("ann", LEAVE_EPOCH))

    classic = shard.classic
    assert classic.state is GroupState.PREPARING_REBALANCE
    assert isinstance(shard.log[-2], ConsumerGroupForgotten)
    generation = shard.log[-1]
    assert isinstance(generation, GenerationStored)
    assert (generation.generation, generation.protocol, generation.protocol_type) == (epoch, "sticky", "consumer")
    a = shard.topics.id_of("a")
    for member in generation.members:
        assert read(member.assignment) == {"a": sorted(targets[member.member_id][a])}
    assert VOLATILE_TYPES.isdisjoint(map(type, shard.log[start:]))
    assert {kind for _, kind, _ in shard.deadlines._due_ms} == {"classic-session", "classic-join"}
    assert shard.beat("bob", epoch) is ErrorCode.REBALANCE_IN_PROGRESS

    ticket = shard.join(join_request("bob", protocols=["sticky", "range"]))
    shard.join(join_request("cid", protocols=["range", "sticky"]))
    assert shard.answers[ticket].generation == epoch + 1
    assert len(shard.answers[ticket].members) == 2


def test_the_last_new_member_is_lost_and_the_group_is_a_classic_one(shard: Shard) -> None:
    mixed(shard)
    generation = shard.consumer.roster.epoch
    for _ in range(2):
        shard.advance(SESSION_TIMEOUT_MS // 2)
        for member_id in ("bob", "cid"):
            shard.beat(member_id, generation)
    shard.advance(1)

    assert set(shard.classic.roster.members) == {"bob", "cid"}


def test_new_and_classic_members_that_leave_together_leave_a_classic_group(shard: Shard) -> None:
    mixed(shard)
    shard.leave(("ann", None), ("cid", None))

    assert set(shard.classic.roster.members) == {"bob"}


def test_a_log_that_ends_with_a_downgrade_is_a_classic_group_whose_rebalance_is_still_due(shard: Shard) -> None:
    """Otherwise no member would ever get the partitions of the member that left."""
    mixed(shard)
    shard.heartbeat(heartbeat("ann", LEAVE_EPOCH))

    loaded = Shard(shard.topics, settings(), shard.log)

    assert loaded.classic.state is GroupState.PREPARING_REBALANCE
    assert set(loaded.classic.roster.members) == {"bob", "cid"}


def test_a_log_truncated_inside_a_downgrade_gives_no_group_that_counts_as_stable(shard: Shard) -> None:
    """Some members and targets are deleted already: their partitions would never be assigned again."""
    mixed(shard)
    start = len(shard.log)
    shard.heartbeat(heartbeat("ann", LEAVE_EPOCH))

    for cut in range(start + 1, len(shard.log)):
        group = Shard(shard.topics, settings(), shard.log[:cut]).group
        assert group is None or group.state in (GroupState.ASSIGNING, GroupState.EMPTY)


@pytest.mark.parametrize(
    "config",
    [settings("disabled"), settings("upgrade"), replace(settings(), group_max_size=1)],
    ids=["disabled", "upgrade", "size"],
)
def test_a_group_that_must_not_be_downgraded_stays_a_consumer_group(config: GroupDefaults) -> None:
    shard = Shard(Topics({"a": 4}), config)
    mixed(shard)
    shard.heartbeat(heartbeat("ann", LEAVE_EPOCH))

    assert set(shard.consumer.roster.members) == {"bob", "cid"}
    assert shard.consumer.state is GroupState.ASSIGNING


def test_the_last_member_of_all_leaves_an_empty_consumer_group(shard: Shard) -> None:
    shard.heartbeat(heartbeat("ann", topics=["a"]))
    shard.heartbeat(heartbeat("ann", LEAVE_EPOCH))

    assert shard.consumer.state is GroupState.EMPTY
    ticket = shard.join(join_request(new_member_id="bob"))
    shard.advance(0)
    assert shard.answers[ticket].generation == 1
    assert shard.classic.state is GroupState.COMPLETING_REBALANCE


def test_the_last_new_member_returns_classic_and_keeps_its_partitions(shard: Shard) -> None:
    mixed(shard, instance="one")
    epoch = shard.consumer.roster.epoch
    a = shard.topics.id_of("a")
    target = shard.consumer.roster.targets[ANN][a]
    shard.heartbeat(heartbeat("ann", LEAVE_STATIC_EPOCH, instance="one"))

    joined = shard.join(join_request(new_member_id="dan", instance="one", protocols=["range", "sticky"]))

    assert joined == JoinResult(MemberId("dan"), ErrorCode.NONE, epoch, "consumer", "range")
    assert shard.classic.state is GroupState.STABLE, "nobody else has to know"
    synced = shard.sync("dan", epoch, instance="one", protocol_type="consumer", protocol="range")
    assert read(synced.assignment) == {"a": sorted(target)}
    assert shard.beat("bob", epoch) is ErrorCode.NONE


def test_the_last_new_member_comes_back_classic_with_another_subscription_and_all_rebalance(shard: Shard) -> None:
    mixed(shard, instance="one")
    epoch = shard.consumer.roster.epoch
    shard.heartbeat(heartbeat("ann", LEAVE_STATIC_EPOCH, instance="one"))
    shard.join(join_request(new_member_id="dan", instance="one", topics=["b"], protocols=["range", "sticky"]))

    assert shard.classic.state is GroupState.PREPARING_REBALANCE
    assert shard.beat("bob", epoch) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_that_comes_back_classic_and_alone_gets_what_others_have_left(shard: Shard) -> None:
    shard.heartbeat(heartbeat("ann", topics=["a"], instance="one"))
    shard.heartbeat(heartbeat("bob", topics=["a"]))
    shard.heartbeat(heartbeat("bob", LEAVE_EPOCH))
    shard.heartbeat(heartbeat("ann", LEAVE_STATIC_EPOCH, instance="one"))

    shard.join(join_request(new_member_id="dan", instance="one"))

    assert shard.classic.state is GroupState.PREPARING_REBALANCE, "what it had was half of it"


def test_a_member_that_comes_back_classic_gets_partitions_that_are_new(shard: Shard) -> None:
    mixed(shard, instance="one")
    shard.heartbeat(heartbeat("ann", LEAVE_STATIC_EPOCH, instance="one"))
    shard.topics.put("a", 5)

    shard.join(join_request(new_member_id="dan", instance="one", protocols=["range", "sticky"]))

    assert shard.classic.state is GroupState.PREPARING_REBALANCE


def test_other_new_members_prevent_a_downgrade_when_one_returns_classic(shard: Shard) -> None:
    mixed(shard, instance="one")
    shard.heartbeat(heartbeat("eve", topics=["a"]))
    shard.heartbeat(heartbeat("ann", LEAVE_STATIC_EPOCH, instance="one"))
    shard.join(join_request(new_member_id="dan", instance="one"))

    assert set(shard.consumer.roster.members) == {"bob", "cid", "dan", "eve"}


def test_an_unreadable_second_protocol_of_a_classic_member_does_not_prevent_the_downgrade(shard: Shard) -> None:
    shard.heartbeat(heartbeat("ann", topics=["a"]))
    shard.join(join_request("bob", protocols=["range"]))
    odd = join_request("cid", protocols=["sticky"])
    shard.join(odd._replace(protocols=[*odd.protocols, SupportedProtocol("range", b"")]))
    shard.heartbeat(heartbeat("ann", LEAVE_EPOCH))

    assert set(shard.classic.roster.members) == {"bob", "cid"}
