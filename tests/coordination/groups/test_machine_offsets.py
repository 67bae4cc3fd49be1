"""Offsets of groups: permission to commit, fetch and delete, and their expiry."""

from collections.abc import Callable, Sequence

import pytest

from headwater.config.group_defaults import GroupDefaults
from headwater.coordination.groups.classic.events import ClassicGroupForgotten
from headwater.coordination.groups.consumer.events import ConsumerGroupForgotten
from headwater.coordination.groups.offsets.commands import Commit, FoundOffset, OffsetQuery
from headwater.coordination.groups.offsets.events import OffsetForgotten
from headwater.coordination.groups.terms import GroupState
from headwater.errors import ErrorCode, Refusal
from headwater.ids import GroupId, MemberId, TopicName, TopicPartition
from tests.coordination.groups.machine_driver import SETTINGS, MachineDriver
from tests.coordination.groups.one_group import OneGroup, completing, mixed, nothing, offset, preparing
from tests.support.coordination.consumer_driver import Topics, heartbeat
from tests.support.coordination.migration_driver import CLASSIC_SESSION_TIMEOUT_MS, join_request

NAME = "payments"
PAYMENTS = GroupId(NAME)
RETENTION_MS = SETTINGS.offsets_retention_ms

Begin = Callable[[OneGroup], None]


@pytest.fixture
def driver() -> MachineDriver:
    return MachineDriver(Topics({"a": 2, "b": 1, "c": 1}))


@pytest.fixture
def group(driver: MachineDriver) -> OneGroup:
    return driver.group(NAME)


def static(group: OneGroup) -> None:
    ticket = group.join(join_request(new_member_id="bob", instance="i"))
    group.driver.pass_time(0)
    assert isinstance(ticket, int)
    group.sync("bob", 1, instance="i")


# -- who may commit


@pytest.mark.parametrize(
    ("begin", "member_id", "generation"),
    [
        (OneGroup.stable_classic, "bob", 1),
        (preparing, "bob", 1),
        (OneGroup.stable_consumer, "ann", 1),
        (mixed, "ann", 2),
        (mixed, "bob", 2),
        (nothing, "", -1),
        (nothing, "somebody", -1),
        (nothing, "", -2),
        (OneGroup.empty_classic, "", -1),
        (OneGroup.empty_classic, "somebody", -1),
        (OneGroup.empty_consumer, "", -1),
    ],
)
def test_members_may_commit_and_any_client_where_a_group_has_no_members(
    driver: MachineDriver, group: OneGroup, begin: Begin, member_id: str, generation: int
) -> None:
    begin(group)
    codes = group.commit(offset("a", 0, 7), offset("b", 0, 8), member_id=member_id, generation=generation)
    assert codes == [ErrorCode.NONE] * 2
    assert group.committed() == {("a", 0): 7, ("b", 0): 8}
    assert driver.restarted().group(NAME).committed() == group.committed()


@pytest.mark.parametrize(
    ("begin", "member_id", "generation", "code"),
    [
        (nothing, "bob", 1, ErrorCode.GROUP_ID_NOT_FOUND),
        (nothing, "bob", 0, ErrorCode.GROUP_ID_NOT_FOUND),
        (OneGroup.empty_classic, "bob", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        (OneGroup.stable_classic, "", -1, ErrorCode.UNKNOWN_MEMBER_ID),
        (OneGroup.stable_classic, "stranger", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        (OneGroup.stable_classic, "bob", 0, ErrorCode.ILLEGAL_GENERATION),
        (OneGroup.stable_classic, "bob", 2, ErrorCode.ILLEGAL_GENERATION),
        (OneGroup.stable_classic, "bob", -1, ErrorCode.ILLEGAL_GENERATION),
        (completing, "bob", 1, ErrorCode.REBALANCE_IN_PROGRESS),
        (OneGroup.empty_consumer, "ann", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        (OneGroup.stable_consumer, "", -1, ErrorCode.UNKNOWN_MEMBER_ID),
        (OneGroup.stable_consumer, "stranger", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        (OneGroup.stable_consumer, "ann", 0, ErrorCode.STALE_MEMBER_EPOCH),
        (OneGroup.stable_consumer, "ann", 2, ErrorCode.STALE_MEMBER_EPOCH),
        (mixed, "ann", 1, ErrorCode.STALE_MEMBER_EPOCH),
        (mixed, "bob", 1, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_stale_members_and_strangers_may_not_commit(
    driver: MachineDriver, group: OneGroup, begin: Begin, member_id: str, generation: int, code: ErrorCode
) -> None:
    begin(group)
    before = driver.snapshot()
    with pytest.raises(Refusal) as refused:
        group.commit(offset("a", 0, 7), member_id=member_id, generation=generation)
    assert refused.value.code is code
    assert driver.snapshot() == before


def test_a_client_without_epochs_is_told_illegal_generation_for_a_stale_epoch(driver: MachineDriver) -> None:
    commit = Commit(MemberId("bob"), None, 1, [], knows_epochs=False)
    with pytest.raises(Refusal) as refused:
        driver.machine.decide_commit(GroupId(NAME), commit, driver.now)
    assert refused.value.code is ErrorCode.ILLEGAL_GENERATION


def test_offsets_of_a_deleted_namesake_are_not_returned(driver: MachineDriver, group: OneGroup) -> None:
    group.commit(offset("a", 0, 7, topics=driver.topics))
    driver.topics.delete("a")
    driver.topics.put("a", 1)
    where = TopicPartition(TopicName("a"), 0)
    assert driver.machine.committed(PAYMENTS, OffsetQuery([where])).result == [FoundOffset(where, None)]


def test_a_static_member_is_fenced_by_the_one_that_took_its_place(driver: MachineDriver, group: OneGroup) -> None:
    static(group)
    group.join(join_request(new_member_id="bob-again", instance="i"))
    with pytest.raises(Refusal) as refused:
        group.commit(offset("a", 0, 7), member_id="bob", generation=1, instance="i")
    assert refused.value.code is ErrorCode.FENCED_INSTANCE_ID


def test_a_client_without_epochs_may_not_commit_as_a_consumer_member(group: OneGroup) -> None:
    mixed(group)
    with pytest.raises(Refusal) as refused:
        group.commit(offset("a", 0, 7), member_id="ann", generation=2, knows_epochs=False)
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
    assert group.commit(offset("a", 0, 7), member_id="bob", generation=2, knows_epochs=False) == [ErrorCode.NONE]


def test_a_commit_extends_the_session_of_its_member(driver: MachineDriver, group: OneGroup) -> None:
    group.stable_classic()
    driver.pass_time(CLASSIC_SESSION_TIMEOUT_MS - 1)
    group.commit(offset("a", 0, 7), member_id="bob", generation=1)
    driver.pass_time(CLASSIC_SESSION_TIMEOUT_MS - 1)
    assert group.state is GroupState.STABLE


def test_each_offset_of_a_commit_is_accepted_or_refused_separately(driver: MachineDriver, group: OneGroup) -> None:
    note = "x" * (driver.config.offset_metadata_max_bytes + 1)
    codes = group.commit(offset("a", 0, 1), offset("a", 1, 2, note=note), offset("b", 0, 3))
    assert codes == [ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE]
    assert group.committed() == {("a", 0): 1, ("b", 0): 3}


def test_a_commit_without_an_accepted_offset_begins_no_group(driver: MachineDriver, group: OneGroup) -> None:
    note = "x" * (driver.config.offset_metadata_max_bytes + 1)
    assert group.commit(offset("a", 0, 1, note=note)) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert group.commit() == []
    assert driver.machine.groups == {}


# -- who may fetch


def test_some_or_all_offsets_of_a_group_are_fetched_and_none_of_another(driver: MachineDriver, group: OneGroup) -> None:
    group.commit(offset("a", 0, 1), offset("a", 1, 2), offset("b", 0, 3))
    driver.group("another").commit(offset("a", 0, 99))

    assert group.committed() == {("a", 0): 1, ("a", 1): 2, ("b", 0): 3}
    assert group.committed(("b", 0), ("a", 1), ("c", 0), ("nowhere", 5)) == {
        ("b", 0): 3,
        ("a", 1): 2,
        ("c", 0): None,
        ("nowhere", 5): None,
    }


def test_a_fetch_of_no_partitions_returns_no_offsets(driver: MachineDriver, group: OneGroup) -> None:
    group.commit(offset("a", 0, 1))
    assert driver.group("nobody").committed() == {}
    assert driver.group("nobody").committed(("a", 0)) == {("a", 0): None}
    assert driver.group("nobody").committed(("a", 0), member_id="ann", epoch=5) == {("a", 0): None}
    assert list(driver.machine.groups) == [NAME], "a question begins no group"


@pytest.mark.parametrize(
    ("member_id", "epoch", "code"),
    [
        ("ann", 2, None),
        ("bob", 2, None),
        (None, -1, None),
        ("ann", 1, ErrorCode.STALE_MEMBER_EPOCH),
        ("bob", 1, ErrorCode.ILLEGAL_GENERATION),
        ("stranger", 2, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", 2, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_an_offset_fetch_of_a_stale_consumer_member_is_refused(
    group: OneGroup, member_id: str | None, epoch: int, code: ErrorCode | None
) -> None:
    mixed(group)
    group.commit(offset("a", 0, 1), member_id="ann", generation=2)
    if code is None:
        assert group.committed(member_id=member_id, epoch=epoch) == {("a", 0): 1}
        return
    with pytest.raises(Refusal) as refused:
        group.committed(member_id=member_id, epoch=epoch)
    assert refused.value.code is code


def test_an_offset_fetch_from_a_classic_group_ignores_the_member_id(group: OneGroup) -> None:
    group.stable_classic()
    group.commit(offset("a", 0, 1), member_id="bob", generation=1)
    assert group.committed(("a", 0), member_id="stranger", epoch=9) == {("a", 0): 1}


# -- who may delete offsets


@pytest.mark.parametrize("begin", [OneGroup.stable_classic, OneGroup.stable_consumer])
def test_offsets_of_subscribed_topics_are_kept_and_others_deleted(
    driver: MachineDriver, group: OneGroup, begin: Begin
) -> None:
    group.commit(offset("a", 0, 1), offset("b", 0, 2), offset("c", 0, 3))
    begin(group)

    codes = group.delete_offsets(("b", 0), ("a", 0), ("b", 0), ("c", 7), ("nowhere", 0))

    subscribed = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert codes == [ErrorCode.NONE, subscribed, ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NONE]
    assert group.committed() == {("a", 0): 1, ("c", 0): 3}
    assert driver.restarted().offsets() == driver.offsets()


@pytest.mark.parametrize("begin", [nothing, OneGroup.empty_classic, OneGroup.empty_consumer])
def test_all_offsets_of_a_group_without_members_can_be_deleted(group: OneGroup, begin: Begin) -> None:
    begin(group)
    group.commit(offset("a", 0, 1), offset("b", 0, 2))
    assert group.delete_offsets(("a", 0), ("b", 0)) == [ErrorCode.NONE, ErrorCode.NONE]
    assert group.committed() == {}


def test_no_offset_is_deleted_while_members_of_another_protocol_type_exist(group: OneGroup) -> None:
    group.commit(offset("a", 0, 1))
    group.join(join_request(new_member_id="worker", protocol_type="connect"))
    with pytest.raises(Refusal) as refused:
        group.delete_offsets(("a", 0))
    assert refused.value.code is ErrorCode.NON_EMPTY_GROUP
    assert group.committed() == {("a", 0): 1}


# -- offsets that nobody has used for long


def expired(driver: MachineDriver) -> Sequence[tuple[str, int]]:
    return [(event.topic, event.partition) for event in driver.expire() if isinstance(event, OffsetForgotten)]


@pytest.mark.parametrize(
    ("begin", "ending"),
    [(OneGroup.empty_classic, ClassicGroupForgotten), (OneGroup.empty_consumer, ConsumerGroupForgotten)],
)
def test_an_empty_group_vanishes_with_its_last_offset(
    driver: MachineDriver, group: OneGroup, begin: Begin, ending: type
) -> None:
    begin(group)
    group.commit(offset("a", 0, 1))
    driver.pass_time(RETENTION_MS - 1)
    assert driver.expire() == []

    driver.pass_time(1)
    events = driver.expire()

    assert events[0] == OffsetForgotten(PAYMENTS, TopicName("a"), 0)
    assert isinstance(events[-1], ending)
    assert driver.machine.groups == driver.offsets() == {}
    assert driver.expire() == []
    assert driver.restarted().machine.groups == {}


@pytest.mark.parametrize("begin", [OneGroup.empty_classic, OneGroup.empty_consumer])
def test_an_empty_group_without_offsets_vanishes_at_once(driver: MachineDriver, group: OneGroup, begin: Begin) -> None:
    begin(group)
    driver.expire()
    assert driver.machine.groups == driver.restarted().machine.groups == {}


def test_offsets_of_a_classic_group_age_from_when_its_last_member_left(driver: MachineDriver, group: OneGroup) -> None:
    group.stable_classic()
    group.commit(offset("a", 0, 1), member_id="bob", generation=1)
    for _ in range(3):
        driver.pass_time(CLASSIC_SESSION_TIMEOUT_MS - 1)
        group.beat("bob", 1)
    group.leave(("bob", None))
    driver.pass_time(RETENTION_MS - 1)
    assert driver.expire() == []
    driver.pass_time(1)
    assert expired(driver) == [("a", 0)]


def test_offsets_without_members_age_one_by_one_and_the_group_goes_with_the_last(
    driver: MachineDriver, group: OneGroup
) -> None:
    group.commit(offset("a", 0, 1))
    driver.pass_time(1000)
    group.commit(offset("b", 0, 2))
    driver.pass_time(RETENTION_MS - 1000)

    assert expired(driver) == [("a", 0)]
    assert group.committed() == {("b", 0): 2}
    driver.pass_time(1000)
    assert expired(driver) == [("b", 0)]
    assert driver.machine.groups == {}


def test_an_offset_with_its_own_retention_expires_by_it(driver: MachineDriver, group: OneGroup) -> None:
    group.commit(offset("a", 0, 1), retention_ms=5000)
    group.commit(offset("b", 0, 1), retention_ms=RETENTION_MS * 2)
    driver.pass_time(5000)
    assert expired(driver) == [("a", 0)]
    driver.pass_time(RETENTION_MS)
    assert expired(driver.restarted()) == expired(driver) == []


def keep_alive_classic(group: OneGroup) -> None:
    group.beat("bob", 1)


def keep_alive_consumer(group: OneGroup) -> None:
    group.heartbeat(heartbeat("ann", 1))


@pytest.mark.parametrize(
    ("begin", "keep_alive", "member_id"),
    [
        (OneGroup.stable_classic, keep_alive_classic, "bob"),
        (OneGroup.stable_consumer, keep_alive_consumer, "ann"),
    ],
)
def test_offsets_of_subscribed_topics_are_kept_and_others_expire(
    begin: Begin, keep_alive: Begin, member_id: str
) -> None:
    driver = MachineDriver(
        Topics({"a": 1, "b": 1}), GroupDefaults(offsets_retention_minutes=1, group_initial_rebalance_delay_ms=0)
    )
    group = driver.group(NAME)
    begin(group)
    group.commit(offset("a", 0, 1), offset("b", 0, 2), member_id=member_id, generation=1)
    for _ in range(3):
        driver.pass_time(20_000)
        keep_alive(group)

    assert expired(driver) == [("b", 0)]
    assert group.committed() == {("a", 0): 1}
    assert group.state is GroupState.STABLE


def test_no_offset_expires_during_a_rebalance_or_with_members_of_another_protocol_type() -> None:
    driver = MachineDriver(
        Topics({"a": 1}), GroupDefaults(offsets_retention_minutes=1, group_initial_rebalance_delay_ms=0)
    )
    for name in ("rebalancing", "connect"):
        driver.group(name).commit(offset("a", 0, 1))
    driver.pass_time(60_000)
    driver.group("rebalancing").join(join_request(new_member_id="bob", topics=["b"]))
    driver.group("connect").join(join_request(new_member_id="worker", protocol_type="connect"))
    assert driver.expire() == []


def test_groups_expire_independently(driver: MachineDriver) -> None:
    driver.group("old").commit(offset("a", 0, 1))
    driver.pass_time(RETENTION_MS)
    driver.group("young").commit(offset("a", 0, 2))
    driver.group("new").empty_consumer()

    driver.expire()
    assert list(driver.machine.groups) == ["young"]


# -- topics that are gone


def test_offsets_of_a_deleted_topic_are_deleted_in_every_group(driver: MachineDriver, group: OneGroup) -> None:
    group.stable_consumer()
    group.commit(offset("a", 0, 1), offset("b", 0, 2), member_id="ann", generation=1)
    driver.group("another").commit(offset("a", 1, 3))
    driver.group("third").commit(offset("c", 0, 4))
    driver.topics.delete("a")
    driver.topics.delete("c")

    driver.forget_topics("a", "c", "never was")

    assert set(driver.offsets()) == {(NAME, "b", 0)}
    assert driver.restarted().offsets() == driver.offsets()


def test_after_a_restart_offsets_of_recreated_topics_are_deleted(driver: MachineDriver) -> None:
    topics = driver.topics
    group = driver.group(NAME)
    group.commit(*(offset(name, 0, 1, topics=topics) for name in ("a", "b", "c")), offset("b", 1, 1))
    topics.delete("a")
    topics.delete("b")
    topics.put("b", 2)

    restarted = driver.restarted()

    kept = {(NAME, "a", 0), (NAME, "c", 0), (NAME, "b", 1)}
    assert set(restarted.offsets()) == kept, "one without an id is believed, and a topic that is gone may be restored"
    assert restarted.replayed().offsets() == restarted.offsets(), "and it is written down"
