"""The assignor of share groups."""

from collections import Counter
from collections.abc import Mapping
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from headwater.coordination.groups.assignment import Assignment
from headwater.coordination.groups.assignors.simple import ShareSubscription, assign_simple
from headwater.ids import MemberId, TopicId

ONE, TWO = TopicId(UUID(int=1)), TopicId(UUID(int=2))
BOTH = frozenset({ONE, TWO})


def members(count: int, topic_ids: frozenset[TopicId] = BOTH) -> list[ShareSubscription]:
    return [ShareSubscription(MemberId(f"m{number}"), topic_ids, {}) for number in range(count)]


def again(subscriptions: list[ShareSubscription], targets: Mapping[MemberId, Assignment]) -> list[ShareSubscription]:
    return [each._replace(assigned=targets.get(each.member_id, {})) for each in subscriptions]


def pairs(assignment: Assignment) -> set[tuple[TopicId, int]]:
    return {(topic_id, index) for topic_id, indexes in assignment.items() for index in indexes}


@given(st.integers(1, 9), st.integers(0, 6), st.integers(0, 6), st.integers(0, 9))
def test_members_with_the_same_topics_share_them_evenly(count: int, one: int, two: int, later: int) -> None:
    counts = {ONE: one, TWO: two}
    group = members(count)
    targets = assign_simple(group, counts)
    check_even(targets, one + two, len(group))
    changed = again(members(max(later, 1)), targets)
    after = assign_simple(changed, counts)
    check_even(after, one + two, len(changed))
    assert assign_simple(again(changed, after), counts) == after, "what is even already stays"
    assert assign_simple(changed[::-1], dict(reversed(counts.items()))) == after


def check_even(targets: Mapping[MemberId, Assignment], partition_count: int, member_count: int) -> None:
    loads = [len(pairs(assignment)) for assignment in targets.values()]
    sharers = Counter(each for assignment in targets.values() for each in pairs(assignment))
    assert len(sharers) == partition_count, "no partition is left out"
    if partition_count:
        assert max(loads) - min(loads) <= 1
        assert max(sharers.values()) - min(sharers.values()) <= 1
        assert min(loads) >= 1
        assert sum(loads) == max(partition_count, member_count)


@given(
    st.lists(st.frozensets(st.sampled_from([ONE, TWO])), min_size=1, max_size=6),
    st.integers(0, 5),
    st.integers(0, 5),
)
def test_every_partition_and_every_member_is_served_whatever_members_subscribe_to(
    topic_ids: list[frozenset[TopicId]], one: int, two: int
) -> None:
    counts = {ONE: one, TWO: two}
    group = [ShareSubscription(MemberId(f"m{number}"), ids, {}) for number, ids in enumerate(topic_ids)]
    targets = assign_simple(group, counts)
    served = set().union(*map(pairs, targets.values()))
    assert served == {(topic, index) for ids in topic_ids for topic in ids for index in range(counts[topic])}
    for member in group:
        assert targets[member.member_id].keys() <= member.topic_ids
        assert targets[member.member_id] or not any(counts[topic_id] for topic_id in member.topic_ids)


def test_members_keep_what_they_have_when_another_joins() -> None:
    group = members(2, frozenset({ONE}))
    targets = assign_simple(group, {ONE: 4})
    after = assign_simple([*again(group, targets), *members(3, frozenset({ONE}))[2:]], {ONE: 4})
    for member in group:
        kept = pairs(targets[member.member_id]) & pairs(after[member.member_id])
        assert len(kept) == len(pairs(after[member.member_id]))
    assert len(pairs(after[MemberId("m2")])) == 1


def test_partitions_that_are_gone_are_not_kept() -> None:
    group = again(members(1, frozenset({ONE})), {MemberId("m0"): {ONE: frozenset({0, 7}), TWO: frozenset({0})}})
    assert assign_simple(group, {ONE: 2}) == {MemberId("m0"): {ONE: frozenset({0, 1})}}
