"""Queries to a classic group: permission to commit, subscribed topics, its description, and its return from the log."""

import pytest

from headwater.coordination.groups.classic.commands import NO_GENERATION, ClassicDescription, ClassicMemberDescription
from headwater.coordination.groups.classic.events import GenerationStored, StoredMember, SupportedProtocol
from headwater.coordination.groups.offsets.offsets import ExpiryRule
from headwater.coordination.groups.terms import NO_MEMBER, GroupState
from headwater.errors import ErrorCode, Refusal
from headwater.ids import MemberId, TopicName
from tests.coordination.groups.classic.driver import (
    GROUP,
    RANGE,
    REBALANCE_MS,
    SESSION_MS,
    WALL_MS,
    ClassicDriver,
    protocols,
)

ORDERS, USERS = TopicName("orders"), TopicName("users")

# -- commits


@pytest.mark.parametrize("is_transactional", [False, True])
def test_commits_without_a_member_are_accepted_while_the_group_is_empty(is_transactional: bool) -> None:
    driver = ClassicDriver()
    driver.commit(NO_MEMBER, NO_GENERATION, is_transactional=is_transactional)
    driver.commit("anyone", NO_GENERATION, is_transactional=is_transactional)

    driver.stable("ann").leave("ann")
    driver.commit(NO_MEMBER, NO_GENERATION, is_transactional=is_transactional)


def test_commits_without_a_member_are_refused_while_there_are_members() -> None:
    driver = ClassicDriver().stable("ann")

    with pytest.raises(Refusal, match="once they have left") as refusal:
        driver.commit(NO_MEMBER, NO_GENERATION)

    assert refusal.value.code is ErrorCode.UNKNOWN_MEMBER_ID
    driver.commit(NO_MEMBER, NO_GENERATION, is_transactional=True)


@pytest.mark.parametrize("is_transactional", [False, True])
@pytest.mark.parametrize(
    ("member_id", "instance", "generation", "code"),
    [
        ("stranger", None, 1, ErrorCode.UNKNOWN_MEMBER_ID),
        (NO_MEMBER, None, 1, ErrorCode.UNKNOWN_MEMBER_ID),
        (NO_MEMBER, "i-bob", NO_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID),
        ("stranger", "i-ann", 1, ErrorCode.FENCED_INSTANCE_ID),
        ("ann", None, 0, ErrorCode.ILLEGAL_GENERATION),
        ("ann", "i-ann", NO_GENERATION, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_a_commit_must_come_from_a_member_of_this_generation(
    member_id: str, instance: str | None, generation: int, code: ErrorCode, is_transactional: bool
) -> None:
    driver = ClassicDriver().stable("ann", static=["ann"])

    with pytest.raises(Refusal) as refusal:
        driver.commit(member_id, generation, instance=instance, is_transactional=is_transactional)

    assert refusal.value.code is code


def test_a_member_of_an_earlier_generation_may_not_commit_to_an_empty_group() -> None:
    driver = ClassicDriver().stable("ann")
    driver.leave("ann")

    with pytest.raises(Refusal) as refusal:
        driver.commit("ann", 1)

    assert refusal.value.code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_without_an_assignment_may_commit_only_in_a_transaction() -> None:
    driver = ClassicDriver().completing("ann")

    with pytest.raises(Refusal) as refusal:
        driver.commit("ann", 1)

    assert refusal.value.code is ErrorCode.REBALANCE_IN_PROGRESS
    driver.commit("ann", 1, is_transactional=True)


def test_a_commit_keeps_the_session_as_a_heartbeat_does() -> None:
    driver = ClassicDriver().stable("ann", "bob")
    driver.join("bob", offers=protocols("range", topics=["more"]))
    for _ in range(3):
        driver.advance(SESSION_MS - 1)
        driver.commit("ann", 1)

    assert "ann" in driver.members
    driver.advance(SESSION_MS - 1)
    driver.commit("ann", 1, is_transactional=True)
    driver.advance(1)
    assert "ann" not in driver.members


# -- topics


def test_a_group_keeps_the_subscription_of_its_last_generation() -> None:
    driver = ClassicDriver()
    assert not driver.group.is_subscribed_to(ORDERS), "nobody has ever joined"
    driver.join(new_id="ann", offers=protocols("range", topics=["orders"]))
    assert driver.group.is_subscribed_to(USERS), "not known yet, so any topic may be needed"

    driver.advance(10_000)
    assert driver.group.is_subscribed_to(ORDERS)
    assert not driver.group.is_subscribed_to(USERS)

    driver.sync("ann")
    driver.join(new_id="bob", offers=protocols("range", topics=["users"]))
    assert not driver.group.is_subscribed_to(USERS)
    driver.join("ann")
    assert driver.group.is_subscribed_to(ORDERS)
    assert driver.group.is_subscribed_to(USERS)

    driver.leave("ann", "bob")
    assert not driver.group.is_subscribed_to(ORDERS)


def test_consumers_whose_subscription_cannot_be_read_may_need_any_topic() -> None:
    driver = ClassicDriver().stable("ann", offers=[SupportedProtocol("range", b"\xff")])

    assert driver.group.is_subscribed_to(ORDERS)
    assert driver.group.expiry_rule() is None


def test_members_of_another_protocol_type_have_no_topics_and_block_offset_deletion() -> None:
    driver = ClassicDriver()
    driver.group.check_offsets_deletable()
    driver.join(new_id="ann", protocol_type="connect", offers=protocols("eager"))
    driver.advance(10_000)

    assert not driver.group.is_subscribed_to(ORDERS)
    with pytest.raises(Refusal) as refusal:
        driver.group.check_offsets_deletable()
    assert refusal.value.code is ErrorCode.NON_EMPTY_GROUP
    driver.sync("ann", protocol_type="connect")
    assert driver.group.expiry_rule() is None

    driver.leave("ann")
    driver.group.check_offsets_deletable()


def test_offsets_of_consumers_may_be_deleted_topic_by_topic() -> None:
    ClassicDriver().stable("ann").group.check_offsets_deletable()


def test_the_expiry_rule_of_offsets_depends_on_the_state_of_the_group() -> None:
    driver = ClassicDriver()
    assert driver.group.expiry_rule() == ExpiryRule(), "nobody has ever joined: each from its commit"
    driver.completing("ann")
    assert driver.group.expiry_rule() is None
    driver.sync("ann")
    assert driver.group.expiry_rule() == ExpiryRule(subscribed=frozenset([ORDERS]))

    driver.advance(5)
    driver.leave("ann")

    assert driver.group.expiry_rule() == ExpiryRule(empty_since_ms=WALL_MS + driver.now_ms)
    driver.advance(5)
    assert driver.reload().group.expiry_rule() == ExpiryRule(empty_since_ms=WALL_MS + driver.now_ms - 5)


# -- descriptions


def test_a_stable_group_is_described_with_its_assignments() -> None:
    driver = ClassicDriver().stable("ann", static=["ann"])

    metadata = RANGE[0].metadata
    member = ClassicMemberDescription(MemberId("ann"), "i-ann", "client", "/10.0.0.1", metadata, b"for ann")
    assert driver.group.describe() == ClassicDescription(GROUP, GroupState.STABLE, "consumer", "range", [member])


def test_a_group_that_is_not_stable_is_described_without_assignments() -> None:
    driver = ClassicDriver()
    assert driver.group.describe() == ClassicDescription(GROUP, GroupState.EMPTY, "", "", [])
    driver.completing("ann")

    member = ClassicMemberDescription(MemberId("ann"), None, "client", "/10.0.0.1", b"", b"")
    state = GroupState.COMPLETING_REBALANCE
    assert driver.group.describe() == ClassicDescription(GROUP, state, "consumer", "", [member])


# -- the log


def test_a_reloaded_group_continues_with_its_last_generation() -> None:
    driver = ClassicDriver().stable("ann", "bob", static=["bob"])

    loaded = driver.reload()

    assert loaded.group.describe() == driver.group.describe()
    assert loaded.heartbeat("ann") is ErrorCode.NONE
    loaded.commit("bob", 1, instance="i-bob")
    assert loaded.synced[loaded.sync("ann")].assignment == b"for ann"
    assert loaded.joined[loaded.join("bob")].generation == 1, "nothing has changed"
    loaded.advance(SESSION_MS - 1)
    assert loaded.members == ["ann", "bob"]
    loaded.advance(1)
    assert loaded.state is GroupState.EMPTY, "their sessions began anew"


def test_a_reload_forgets_an_unfinished_rebalance() -> None:
    driver = ClassicDriver().stable("ann")
    driver.join(new_id="bob")
    driver.join("ann")
    assert driver.generation == 2

    loaded = driver.reload()

    assert (loaded.state, loaded.generation, loaded.members) == (GroupState.STABLE, 1, ["ann"])


def test_a_reload_keeps_only_the_selected_protocol_of_the_members() -> None:
    driver = ClassicDriver().stable("ann", "bob", offers=protocols("range", "sticky"))

    assert driver.joined[driver.join("bob", offers=protocols("range", "sticky"))].generation == 1
    assert driver.group.roster.supporters == {"range": 2, "sticky": 2}
    loaded = driver.reload()
    assert loaded.group.roster.supporters == {"range": 2}


def stored(*members: StoredMember, leader: str | None, protocol: str | None = "range") -> GenerationStored:
    return GenerationStored(
        GROUP, "consumer", 7, protocol, None if leader is None else MemberId(leader), -1, list(members)
    )


def test_a_reloaded_generation_without_a_leader_begins_a_rebalance() -> None:
    ann = StoredMember(MemberId("ann"), None, "c", "/h", SESSION_MS, SESSION_MS, RANGE[0].metadata, b"1")

    loaded = ClassicDriver().reload([stored(ann, leader=None)])

    assert loaded.group.state is GroupState.PREPARING_REBALANCE


def test_records_without_a_rebalance_time_out_are_read() -> None:
    ann = StoredMember(MemberId("ann"), None, "c", "/h", -1, SESSION_MS, RANGE[0].metadata, b"1")

    loaded = ClassicDriver().reload([stored(ann, leader="ann")])

    assert loaded.group.roster.leader == "ann"
    assert loaded.group.roster.members[MemberId("ann")].rebalance_timeout_ms == SESSION_MS
    loaded.leave("ann")
    assert loaded.generation == 8


def test_offsets_of_an_empty_group_without_a_time_expire_by_their_commits() -> None:
    loaded = ClassicDriver().reload([stored(leader=None, protocol=None)])

    assert loaded.state is GroupState.EMPTY
    assert loaded.group.expiry_rule() == ExpiryRule()


def test_members_without_a_stored_protocol_may_need_any_topic() -> None:
    ann = StoredMember(MemberId("ann"), None, "c", "/h", REBALANCE_MS, SESSION_MS, b"", b"")

    loaded = ClassicDriver().reload([stored(ann, leader="ann", protocol=None)])

    assert loaded.group.is_subscribed_to(ORDERS)
