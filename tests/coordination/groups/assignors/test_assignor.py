"""Properties of every assignor."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.coordination.groups.assignors.assignor import ASSIGNORS, assign
from headwater.coordination.groups.assignors.range import assign_range
from headwater.coordination.groups.assignors.uniform import assign_uniform
from tests.coordination.groups.assignors.groups import (
    ORDERS,
    USERS,
    Members,
    Topics,
    blind,
    groups,
    holding,
    member,
    near_count,
    pairs,
    settled,
    size,
    topics,
)

every_assignor = pytest.mark.parametrize("name", ASSIGNORS)


def test_the_assignors_have_kafkas_names_and_order() -> None:
    assert list(ASSIGNORS.items()) == [("uniform", assign_uniform), ("range", assign_range)]


@every_assignor
def test_a_group_without_members_has_no_targets(name: str) -> None:
    assert assign(name, [], topics((ORDERS, 3))) == {}


@every_assignor
def test_members_that_subscribe_only_to_unknown_topics_have_empty_targets(name: str) -> None:
    had = holding(users={0})

    assert assign(name, [member("a", USERS, assigned=had), member("b")], topics((ORDERS, 3))) == {"a": {}, "b": {}}


@every_assignor
def test_a_member_without_a_subscription_does_not_unbalance_the_others(name: str) -> None:
    group = [member("a", ORDERS), member("b"), member("c", ORDERS)]

    assert assign(name, group, topics((ORDERS, 2))) == {"a": holding(orders={0}), "b": {}, "c": holding(orders={1})}


@every_assignor
def test_a_target_that_has_not_changed_is_the_same_object(name: str) -> None:
    known = topics((ORDERS, 4), (USERS, 3))
    for group in ([member("a", ORDERS), member("b", ORDERS)], [member("a", ORDERS), member("b", ORDERS, USERS)]):
        group = settled(group, assign(name, group, known))
        targets = assign(name, group, known)
        assert all(targets[each.member_id] is each.assigned for each in group)


@every_assignor
@given(group=groups(has_racks=True) | groups(is_homogeneous=True))
def test_each_partition_goes_to_one_subscriber_if_there_are_any(name: str, group: tuple[Members, Topics]) -> None:
    members, known = group
    targets = assign(name, members, known)

    assert set(targets) == {each.member_id for each in members}
    assert all(targets[each.member_id].keys() <= each.topic_ids for each in members)
    assert all(partitions for target in targets.values() for partitions in target.values())
    given_out = [pair for target in targets.values() for pair in pairs(target)]
    assert len(given_out) == len(set(given_out))
    assert set(given_out) == {
        (topic.id, partition)
        for topic in known.values()
        for partition in range(topic.partition_count)
        if any(topic.id in each.topic_ids for each in members)
    }


@every_assignor
@given(group=groups(has_racks=True) | groups(is_homogeneous=True), random=st.randoms(use_true_random=False))
def test_the_order_of_members_and_topics_does_not_matter(
    name: str, group: tuple[Members, Topics], random: Random
) -> None:
    members, known = group
    shuffled = [
        each._replace(assigned=dict(random.sample(list(each.assigned.items()), len(each.assigned))))
        for each in random.sample(members, len(members))
    ]

    targets = assign(name, shuffled, dict(random.sample(list(known.items()), len(known))))

    assert targets == assign(name, members, known)


@every_assignor
@given(group=groups(has_racks=True))
def test_assigning_again_moves_nothing(name: str, group: tuple[Members, Topics]) -> None:
    members, known = group
    targets = assign(name, members, known)

    assert assign(name, settled(members, targets), known) == targets


@every_assignor
@given(group=groups(has_racks=True) | groups(is_homogeneous=True, has_racks=True))
def test_racks_bring_partitions_nearer_and_change_no_members_count(name: str, group: tuple[Members, Topics]) -> None:
    members, known = group
    targets = assign(name, members, known)
    rack_blind = assign(name, members, blind(known))

    assert near_count(members, known, targets) >= near_count(members, known, rack_blind)
    assert {each: size(target) for each, target in targets.items()} == {
        each: size(target) for each, target in rack_blind.items()
    }
