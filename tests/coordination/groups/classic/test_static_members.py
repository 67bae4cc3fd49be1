"""Static members of classic groups: an instance id outlives restarts and belongs to one client at a time."""

import pytest

from headwater.coordination.groups.classic.commands import JoinedMember, JoinResult, SyncResult
from headwater.coordination.groups.classic.events import GenerationStored, SupportedProtocol
from headwater.coordination.groups.terms import NO_MEMBER, GroupState
from headwater.errors import ErrorCode, Refusal
from headwater.ids import MemberId
from tests.coordination.groups.classic.driver import (
    INITIAL_DELAY_MS,
    RANGE,
    REBALANCE_MS,
    SESSION_MS,
    ClassicDriver,
    protocols,
)


def stable(**settings: int) -> ClassicDriver:
    """Ann leads, bob follows."""
    return ClassicDriver(**settings).stable("ann", "bob", static=["ann", "bob"])


def test_a_static_member_joins_at_once_even_where_ids_are_required() -> None:
    driver = ClassicDriver()

    ticket = driver.join(new_id="ann", instance="i-ann", needs_id=True)

    assert driver.is_waiting(ticket)
    assert driver.group.roster.id_of_instance == {"i-ann": "ann"}


def test_a_follower_that_returns_to_a_stable_group_causes_no_rebalance() -> None:
    driver = stable()

    ticket = driver.join(new_id="bob-2", instance="i-bob")

    assert driver.state is GroupState.STABLE
    assert driver.joined[ticket] == JoinResult(
        MemberId("bob-2"), ErrorCode.NONE, 1, "consumer", "range", MemberId("ann"), skip_assignment=False, members=()
    )
    stored = driver.durable[-1]
    assert isinstance(stored, GenerationStored)
    assert [(m.member_id, m.instance_id, m.assignment) for m in stored.members] == [
        ("ann", "i-ann", b"for ann"),
        ("bob-2", "i-bob", b"for bob"),
    ]
    assert driver.synced[driver.sync("bob-2", instance="i-bob")].assignment == b"for bob"


def test_the_replaced_id_is_fenced_and_the_new_one_has_a_session() -> None:
    driver = stable()
    driver.join(new_id="bob-2", instance="i-bob")

    for attempt in (
        lambda: driver.heartbeat("bob", instance="i-bob"),
        lambda: driver.sync("bob", instance="i-bob"),
        lambda: driver.join("bob", instance="i-bob"),
        lambda: driver.commit("bob", 1, instance="i-bob"),
    ):
        with pytest.raises(Refusal, match=r"group\.instance\.id") as refusal:
            attempt()
        assert refusal.value.code is ErrorCode.FENCED_INSTANCE_ID
    with pytest.raises(Refusal) as refusal:
        driver.heartbeat("bob")
    assert refusal.value.code is ErrorCode.UNKNOWN_MEMBER_ID

    driver.heartbeat("ann")
    driver.advance(SESSION_MS - 1)
    assert driver.members == ["ann", "bob-2"]
    driver.heartbeat("ann")
    driver.advance(1)
    assert driver.members == ["ann"], "it was never heard of again"


def test_a_leader_that_returns_to_a_stable_group_is_told_to_skip_the_assignment() -> None:
    driver = stable()

    ticket = driver.join(new_id="ann-2", instance="i-ann")

    metadata = RANGE[0].metadata
    assert driver.joined[ticket] == JoinResult(
        MemberId("ann-2"),
        ErrorCode.NONE,
        1,
        "consumer",
        "range",
        MemberId("ann-2"),
        skip_assignment=True,
        members=[
            JoinedMember(MemberId("bob"), "i-bob", metadata),
            JoinedMember(MemberId("ann-2"), "i-ann", metadata),
        ],
    )
    assert driver.state is GroupState.STABLE


def test_a_returning_leader_that_cannot_skip_the_assignment_is_answered_as_a_follower() -> None:
    driver = stable()

    ticket = driver.join(new_id="ann-2", instance="i-ann", may_skip=False)

    result = driver.joined[ticket]
    assert (result.leader, result.members, result.skip_assignment) == ("ann", (), False)
    assert driver.group.roster.leader == "ann-2"


@pytest.mark.parametrize(
    "offers",
    [protocols("sticky", "range"), protocols("range", topics=["orders", "more"])],
    ids=["another protocol is liked better", "other topics"],
)
def test_a_static_member_that_returns_with_other_protocols_begins_a_rebalance(offers: list[SupportedProtocol]) -> None:
    driver = ClassicDriver().stable("ann", static=["ann"], offers=protocols("range", "sticky"))

    ticket = driver.join(new_id="ann-2", instance="i-ann", offers=offers)

    assert driver.state is GroupState.COMPLETING_REBALANCE, "it is alone, so everyone is there"
    assert driver.joined[ticket].generation == 2


@pytest.mark.parametrize("metadata", [protocols("range", user_data=b"held: 1, 2")[0].metadata, b"\x00"])
def test_changed_metadata_with_the_same_topics_begins_no_rebalance(metadata: bytes) -> None:
    offers = [SupportedProtocol("range", metadata)]
    driver = ClassicDriver()
    driver.stable("ann", static=["ann"], offers=RANGE if len(metadata) > 1 else [SupportedProtocol("range", b"\x01")])

    driver.join(new_id="ann-2", instance="i-ann", offers=offers)

    assert driver.state is GroupState.STABLE
    assert driver.group.describe().members[0].metadata == metadata


def test_a_static_member_that_returns_before_the_assignment_begins_a_rebalance() -> None:
    driver = ClassicDriver().completing("ann", "bob", static=["ann", "bob"])
    syncing = driver.sync("bob", instance="i-bob")

    bob = driver.join(new_id="bob-2", instance="i-bob")

    assert driver.synced[syncing] == SyncResult(ErrorCode.FENCED_INSTANCE_ID)
    assert driver.state is GroupState.PREPARING_REBALANCE
    ann = driver.join("ann", instance="i-ann")
    assert {m.member_id for m in driver.joined[ann].members} == {"ann", "bob-2"}
    assert driver.joined[bob].generation == 2


def test_a_waiting_join_is_fenced_when_its_instance_returns_under_another_id() -> None:
    driver = ClassicDriver()
    first = driver.join(new_id="ann", instance="i-ann")

    second = driver.join(new_id="ann-2", instance="i-ann")
    assert driver.joined[first] == JoinResult(MemberId("ann"), ErrorCode.FENCED_INSTANCE_ID)
    driver.advance(INITIAL_DELAY_MS)

    assert driver.joined[second].generation == 1
    assert driver.joined[second].leader == "ann-2"


def test_a_member_that_rejoins_without_its_instance_id_stays_static() -> None:
    driver = stable()

    driver.join("ann")

    assert driver.group.roster.members[MemberId("ann")].instance_id == "i-ann"


def test_an_unknown_instance_is_refused() -> None:
    driver = stable()

    with pytest.raises(Refusal, match="i-cid") as refusal:
        driver.join("ann", instance="i-cid")

    assert refusal.value.code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_returns_to_a_full_group() -> None:
    driver = stable(max_size=2)

    ticket = driver.join(new_id="bob-2", instance="i-bob")

    assert driver.joined[ticket].error is ErrorCode.NONE
    assert driver.joined[driver.join(new_id="cid", instance="i-cid")].error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_static_members_that_do_not_rejoin_stay_until_their_session_ends() -> None:
    driver = ClassicDriver().stable("ann", "bob", "cid", static=["bob"])
    cid = driver.join("cid", offers=protocols("range", topics=["more"]))
    for _ in range(REBALANCE_MS // 5000):
        driver.heartbeat("ann")
        driver.heartbeat("bob")
        driver.advance(5000)

    assert driver.joined[cid].generation == 2
    assert driver.members == ["bob", "cid"], "ann is dynamic and gone"
    driver.sync("cid")
    driver.advance(SESSION_MS)
    assert "bob" not in driver.members


def test_a_rebalance_in_which_only_absent_static_members_are_left_is_prolonged() -> None:
    driver = ClassicDriver().stable("ann", "bob", "cid", static=["ann", "bob"])
    driver.leave("cid")
    assert driver.state is GroupState.PREPARING_REBALANCE
    for _ in range(REBALANCE_MS // 5000):
        driver.heartbeat("ann")
        driver.heartbeat("bob")
        driver.advance(5000)
    assert driver.state is GroupState.PREPARING_REBALANCE

    bob = driver.join("bob")
    assert driver.is_waiting(bob)
    driver.advance(SESSION_MS)

    assert driver.joined[bob].leader == "bob"
    assert driver.members == ["bob"]


def test_a_rebalance_time_out_of_zero_does_not_keep_the_broker_busy() -> None:
    driver = ClassicDriver().stable("ann", "bob", static=["ann"])
    driver.join(new_id="ann-2", instance="i-ann", rebalance_ms=0, session_ms=600_000)
    driver.leave("bob")
    events_before = len(driver.log)

    driver.advance(60_000)

    assert driver.state is GroupState.PREPARING_REBALANCE, "nobody is there to lead"
    assert len(driver.log) - events_before == 1 + 60_000 // driver.config.group_min_session_timeout_ms


def test_an_administrator_removes_static_members_by_instance_id() -> None:
    driver = stable()

    left = driver.leave_as((NO_MEMBER, "i-ann"), (NO_MEMBER, "i-cid"), ("ann", "i-bob"), ("bob", "i-bob"))

    assert [each.error for each in left] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.NONE,
    ]
    assert left[0].member_id == NO_MEMBER
    assert driver.state is GroupState.EMPTY


def test_the_replacement_of_a_member_that_had_not_synced_is_waited_for() -> None:
    driver = ClassicDriver().completing("ann", "bob", static=["bob"])
    driver.sync("ann", assignments={"bob": b"for bob"})

    driver.join(new_id="bob-2", instance="i-bob")
    assert driver.state is GroupState.STABLE
    assert driver.group.roster.unsynced == {"bob-2"}
    for _ in range(REBALANCE_MS // 5000):
        driver.heartbeat("ann")
        if driver.state is GroupState.STABLE:
            driver.heartbeat("bob-2")
        driver.advance(5000)

    assert driver.state is GroupState.PREPARING_REBALANCE
    assert driver.members == ["ann"]
