"""Committed offsets: commits, deletions and expiry, and their rebuilding from events alone."""

import copy
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headwater.config.declaration import INT64_MAX
from headwater.config.group_defaults import GroupDefaults
from headwater.coordination.catalog.events import Topic
from headwater.coordination.decisions import Decision, Now
from headwater.coordination.groups.offsets.commands import OffsetToCommit
from headwater.coordination.groups.offsets.events import CommittedOffset, OffsetCommitted, OffsetEvent, OffsetForgotten
from headwater.coordination.groups.offsets.offsets import ExpiryRule, Offsets
from headwater.errors import ErrorCode
from headwater.ids import NO_TOPIC_ID, GroupId, TopicId, TopicName

ANN, BOB = GroupId("ann"), GroupId("bob")
ORDERS, USERS = TopicName("orders"), TopicName("users")
ORDERS_ID = TopicId(UUID(int=7))
RETENTION_MS = 60_000
NOW = Now(1_000_000, 5)
CONFIG = GroupDefaults(offset_metadata_max_bytes=4, offsets_retention_minutes=1)


def commit_of(partition: int, offset: int, metadata: str = "", topic: TopicName = ORDERS) -> OffsetToCommit:
    return OffsetToCommit(topic, partition, offset, -1, metadata, NO_TOPIC_ID)


def committed(offset: int, at_ms: int = NOW.wall_ms, expire_at_ms: int = -1) -> CommittedOffset:
    return CommittedOffset(offset, -1, "", at_ms, expire_at_ms)


def offsets_of(*events: OffsetEvent) -> Offsets:
    offsets = Offsets(CONFIG)
    for event in events:
        offsets.apply(event)
    return offsets


def at(group_id: GroupId, topic: TopicName, partition: int, offset: CommittedOffset) -> OffsetCommitted:
    return OffsetCommitted(group_id, topic, partition, offset)


def state(offsets: Offsets) -> dict[str, Any]:
    return copy.deepcopy(vars(vars(offsets)["_committed"]))


# -- commits


def test_a_commit_is_remembered_with_its_time_and_deciding_does_not_mutate() -> None:
    offsets = offsets_of()
    events, codes, *_ = offsets.decide_commit(ANN, [OffsetToCommit(ORDERS, 2, 40, 3, "note", ORDERS_ID)], None, NOW)

    expected = CommittedOffset(40, 3, "note", NOW.wall_ms, -1, ORDERS_ID)
    assert (events, codes) == ([OffsetCommitted(ANN, ORDERS, 2, expected)], [ErrorCode.NONE])
    assert not offsets.has_offsets(ANN)

    again = offsets_of(at(ANN, ORDERS, 2, expected))
    assert again.committed(ANN, ORDERS, 2) == expected
    assert again.of_group(ANN) == {ORDERS: {2: expected}}
    assert again.has_offsets(ANN)


def test_a_partition_without_a_commit_has_no_offset() -> None:
    offsets = offsets_of(at(ANN, ORDERS, 0, committed(1)))
    assert offsets.committed(ANN, ORDERS, 1) is None
    assert offsets.committed(ANN, USERS, 0) is None
    assert offsets.committed(BOB, ORDERS, 0) is None
    assert offsets.of_group(BOB) == {}
    assert not offsets.has_offsets(BOB)


def test_metadata_that_is_too_long_keeps_only_its_own_partition_from_being_committed() -> None:
    commits = [commit_of(0, 1, "12345"), commit_of(1, 2, "1234"), commit_of(2, 3), commit_of(3, 4, "ääää")]
    events, codes, *_ = offsets_of().decide_commit(ANN, commits, None, NOW)
    assert codes == [ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NONE]
    assert [(event.partition, event.committed.metadata) for event in taken(events)] == [
        (1, "1234"),
        (2, ""),
        (3, "ääää"),
    ]


def taken(events: Sequence[object]) -> list[OffsetCommitted]:
    return [event for event in events if isinstance(event, OffsetCommitted)]


@pytest.mark.parametrize(
    ("retention_ms", "expire_at_ms"),
    [(None, -1), (0, NOW.wall_ms), (500, NOW.wall_ms + 500), (INT64_MAX, INT64_MAX), (-INT64_MAX, 0)],
)
def test_a_retention_of_the_clients_own_becomes_a_time_that_can_be_stored(
    retention_ms: int | None, expire_at_ms: int
) -> None:
    decision = offsets_of().decide_commit(ANN, [commit_of(0, 1)], retention_ms, NOW)
    (event,) = taken(decision.events)
    assert event.committed.expire_timestamp_ms == expire_at_ms


def test_the_last_of_two_commits_counts() -> None:
    offsets = offsets_of()
    for event in taken(offsets.decide_commit(ANN, [commit_of(0, 1), commit_of(0, 2)], None, NOW).events):
        offsets.apply(event)
    found = offsets.committed(ANN, ORDERS, 0)
    assert found is not None
    assert found.offset == 2


# -- deletions

MANY = (
    at(ANN, ORDERS, 0, committed(1)),
    at(ANN, ORDERS, 1, committed(2)),
    at(ANN, USERS, 0, committed(3)),
    at(BOB, ORDERS, 0, committed(4)),
)


def test_deletions_skip_unknown_partitions_and_name_each_other_once() -> None:
    wanted = [(ORDERS, 1), (ORDERS, 9), (USERS, 0), (ORDERS, 1)]
    assert offsets_of(*MANY).decide_delete(ANN, wanted) == [
        OffsetForgotten(ANN, ORDERS, 1),
        OffsetForgotten(ANN, USERS, 0),
    ]
    assert offsets_of(*MANY).decide_delete(BOB, [(USERS, 0)]) == []


def test_deleting_a_group_deletes_exactly_its_offsets() -> None:
    offsets = offsets_of(*MANY)
    for event in offsets.decide_forget_group(ANN):
        offsets.apply(event)
    assert state(offsets) == state(offsets_of(MANY[3]))
    assert offsets.decide_forget_group(ANN) == []


def test_a_topic_that_is_deleted_is_forgotten_by_every_group() -> None:
    offsets = offsets_of(*MANY)
    for event in offsets.decide_forget_topics({ORDERS, TopicName("nobody")}):
        offsets.apply(event)
    assert state(offsets) == state(offsets_of(MANY[2]))
    assert not offsets.has_offsets(BOB)


def test_offsets_of_a_recreated_topics_namesake_are_deleted() -> None:
    def offset_in(topic_id: TopicId) -> CommittedOffset:
        return CommittedOffset(1, -1, "", NOW.wall_ms, topic_id=topic_id)

    offsets = offsets_of(
        at(ANN, ORDERS, 0, offset_in(ORDERS_ID)),
        at(ANN, ORDERS, 1, offset_in(TopicId(UUID(int=8)))),
        at(BOB, ORDERS, 0, offset_in(NO_TOPIC_ID)),
        at(BOB, USERS, 0, offset_in(NO_TOPIC_ID)),
    )
    assert offsets.decide_forget_gone({ORDERS: Topic(ORDERS, ORDERS_ID, 1, {})}) == [OffsetForgotten(ANN, ORDERS, 1)], (
        "of a topic that is not known at all they are kept: it may be restored"
    )


def test_deleting_an_unknown_offset_is_accepted() -> None:
    """Compaction may remove the commit and leave only its tombstone."""
    offsets = offsets_of(*MANY, OffsetForgotten(BOB, USERS, 0), OffsetForgotten(GroupId("eve"), USERS, 0))
    assert state(offsets) == state(offsets_of(*MANY))


# -- age

LONG_AGO, JUST_NOW = NOW.wall_ms - RETENTION_MS, NOW.wall_ms - RETENTION_MS + 1


@pytest.mark.parametrize(
    ("rule", "offset", "is_expired"),
    [
        # Without a rule, as while a group rebalances, nothing goes.
        (None, committed(1, LONG_AGO), False),
        (None, committed(1, LONG_AGO, expire_at_ms=1), False),
        # Members that do not subscribe, or no longer to this topic: from the commit.
        (ExpiryRule(), committed(1, LONG_AGO), True),
        (ExpiryRule(), committed(1, JUST_NOW), False),
        (ExpiryRule(subscribed=frozenset({USERS})), committed(1, LONG_AGO), True),
        (ExpiryRule(subscribed=frozenset({ORDERS})), committed(1, LONG_AGO), False),
        (ExpiryRule(subscribed=frozenset({ORDERS})), committed(1, LONG_AGO, expire_at_ms=1), False),
        # A group without members: from when the last one left, however old or young the commit is.
        (ExpiryRule(empty_since_ms=LONG_AGO), committed(1, NOW.wall_ms), True),
        (ExpiryRule(empty_since_ms=JUST_NOW), committed(1, 0), False),
        # Old clients set the time themselves.
        (ExpiryRule(), committed(1, 0, expire_at_ms=NOW.wall_ms), True),
        (ExpiryRule(), committed(1, 0, expire_at_ms=NOW.wall_ms + 1), False),
        (ExpiryRule(empty_since_ms=0), committed(1, 0, expire_at_ms=NOW.wall_ms + 1), False),
    ],
)
def test_offsets_expire_by_the_rule_of_their_group(
    rule: ExpiryRule | None, offset: CommittedOffset, is_expired: bool
) -> None:
    offsets = offsets_of(at(ANN, ORDERS, 3, offset))
    before = state(offsets)
    expected = [OffsetForgotten(ANN, ORDERS, 3)] if is_expired else []
    assert offsets.decide_expire(ANN, rule, NOW) == Decision(expected, is_expired)
    assert state(offsets) == before


def test_a_group_has_offsets_left_until_the_last_is_too_old() -> None:
    old, young = committed(1, LONG_AGO), committed(2, JUST_NOW)
    offsets = offsets_of(at(ANN, ORDERS, 0, old), at(ANN, ORDERS, 1, young), at(ANN, USERS, 0, old))
    assert offsets.decide_expire(ANN, ExpiryRule(), NOW) == Decision(
        [OffsetForgotten(ANN, ORDERS, 0), OffsetForgotten(ANN, USERS, 0)], False
    )
    later = Now(NOW.wall_ms + 1, NOW.monotonic_ms)
    assert offsets.decide_expire(ANN, ExpiryRule(), later).result is True
    assert offsets.decide_expire(BOB, ExpiryRule(), NOW) == Decision([], True), "none to begin with"
    assert offsets.decide_expire(BOB, None, NOW) == Decision([], True)


# -- replay

groups = st.sampled_from([ANN, BOB])
topics = st.sampled_from([ORDERS, USERS])
partitions = st.integers(0, 2)
commits = st.builds(commit_of, partitions, st.integers(0, 9), st.sampled_from(["", "note", "12345"]), topics)
rules = st.none() | st.builds(
    ExpiryRule, st.none() | st.integers(0, 3 * RETENTION_MS), st.frozensets(topics, max_size=1)
)
Model = dict[tuple[GroupId, TopicName, int], CommittedOffset]


def model_of(events: Sequence[OffsetEvent]) -> Model:
    model: Model = {}
    for event in events:
        if isinstance(event, OffsetCommitted):
            model[event[:3]] = event.committed
        elif isinstance(event, OffsetForgotten):
            model.pop(event[:3], None)
    return model


def flattened(offsets: Offsets) -> Model:
    return {
        (group_id, topic, partition): offset
        for group_id in (ANN, BOB)
        for topic, of_topic in offsets.of_group(group_id).items()
        for partition, offset in of_topic.items()
    }


class Life(RuleBasedStateMachine):
    """After any commands the offsets equal a plain dictionary built from the events."""

    def __init__(self) -> None:
        super().__init__()
        self.offsets = Offsets(CONFIG)
        self.log: list[OffsetEvent] = []
        self.now = Now(0, 0)

    def take(self, decide: str, *arguments: object) -> None:
        before = state(self.offsets)
        decided: Any = getattr(self.offsets, decide)(*arguments)
        assert state(self.offsets) == before, "deciding must not mutate"
        for event in getattr(decided, "events", decided):
            self.offsets.apply(event)
            self.log.append(event)

    @rule(group_id=groups, wanted=st.lists(commits, max_size=4), retention_ms=st.none() | st.integers(0, RETENTION_MS))
    def commit(self, group_id: GroupId, wanted: list[OffsetToCommit], retention_ms: int | None) -> None:
        self.take("decide_commit", group_id, wanted, retention_ms, self.now)

    @rule(group_id=groups, wanted=st.lists(st.tuples(topics, partitions), max_size=4))
    def delete(self, group_id: GroupId, wanted: list[tuple[TopicName, int]]) -> None:
        self.take("decide_delete", group_id, wanted)
        assert all(self.offsets.committed(group_id, *one) is None for one in wanted)

    @rule(group_id=groups)
    def forget_group(self, group_id: GroupId) -> None:
        self.take("decide_forget_group", group_id)
        assert not self.offsets.has_offsets(group_id)

    @rule(topic=topics)
    def forget_topic(self, topic: TopicName) -> None:
        self.take("decide_forget_topics", [topic])
        assert all(topic not in self.offsets.of_group(group_id) for group_id in (ANN, BOB))

    @rule(group_id=groups, expiry=rules, passed_ms=st.integers(0, 2 * RETENTION_MS))
    def expire(self, group_id: GroupId, expiry: ExpiryRule | None, passed_ms: int) -> None:
        self.now = Now(self.now.wall_ms + passed_ms, 0)
        none_left = self.offsets.decide_expire(group_id, expiry, self.now).result
        self.take("decide_expire", group_id, expiry, self.now)
        assert none_left == (not self.offsets.has_offsets(group_id))

    @invariant()
    def they_are_what_their_events_say(self) -> None:
        assert flattened(self.offsets) == model_of(self.log)
        for group_id in (ANN, BOB):
            assert all(self.offsets.of_group(group_id).values()), "no topic without partitions"

    @invariant()
    def the_log_rebuilds_them(self) -> None:
        assert state(offsets_of(*self.log)) == state(self.offsets)


Life.TestCase.settings = hypothesis_settings(max_examples=50, stateful_step_count=30)
TestLife = Life.TestCase

events = st.one_of(
    st.builds(OffsetCommitted, groups, topics, partitions, st.builds(committed, st.integers(0, 9))),
    st.builds(OffsetForgotten, groups, topics, partitions),
)


@given(st.lists(events, max_size=20))
def test_every_prefix_of_a_log_gives_what_a_plain_dictionary_would(log: list[OffsetEvent]) -> None:
    offsets = Offsets(CONFIG)
    for length, event in enumerate(log, 1):
        offsets.apply(event)
        assert flattened(offsets) == model_of(log[:length])
