"""Uniform: balance, stickiness where subscriptions agree and where they differ, and racks."""

from itertools import combinations_with_replacement, permutations
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.coordination.groups.assignment import NOTHING, Assignment
from headwater.coordination.groups.assignors.assignor import assign
from headwater.ids import MemberId, TopicId
from tests.coordination.groups.assignors.groups import (
    ORDERS,
    RACKS,
    USERS,
    Members,
    Targets,
    Topics,
    groups,
    holding,
    member,
    near_count,
    pairs,
    racked,
    settled,
    size,
    topics,
)


@pytest.mark.parametrize(
    ("members", "known", "targets"),
    [
        pytest.param(
            [member("a", ORDERS, USERS), member("b", ORDERS, USERS)],
            topics((ORDERS, 3), (USERS, 2)),
            {"a": holding(orders={0, 2}, users={1}), "b": holding(orders={1}, users={0})},
            id="a new group is dealt one partition after the other",
        ),
        pytest.param(
            [member("a", ORDERS), member("b", ORDERS), member("c", ORDERS)],
            topics((ORDERS, 2)),
            {"a": holding(orders={0}), "b": holding(orders={1}), "c": NOTHING},
            id="more members than partitions leave the last with nothing",
        ),
        pytest.param(
            [
                member("a", ORDERS, assigned=holding(orders={0, 1})),
                member("b", ORDERS, assigned=holding(orders={2, 3, 4})),
                member("c", ORDERS),
            ],
            topics((ORDERS, 5)),
            {"a": holding(orders={0, 1}), "b": holding(orders={2, 3}), "c": holding(orders={4})},
            id="a member that joins gets what others have too many of",
        ),
        pytest.param(
            [
                member("a", ORDERS, assigned=holding(orders={0, 3})),
                member("c", ORDERS, assigned=holding(orders={2, 5})),
            ],
            topics((ORDERS, 6)),
            {"a": holding(orders={0, 1, 3}), "c": holding(orders={2, 4, 5})},
            id="what a member leaves behind is shared by the rest",
        ),
        pytest.param(
            [
                member("a", ORDERS, USERS, assigned=holding(orders={0})),
                member("b", ORDERS, USERS, assigned=holding(orders={1})),
            ],
            topics((ORDERS, 2), (USERS, 2)),
            {"a": holding(orders={0}, users={0}), "b": holding(orders={1}, users={1})},
            id="a topic that is new is added to what there is",
        ),
        pytest.param(
            [
                member("a", USERS, assigned=holding(orders={0}, users={0, 1, 2})),
                member("b", USERS, assigned=holding(orders={1, 2})),
            ],
            topics((ORDERS, 3), (USERS, 3)),
            {"a": holding(users={0, 1}), "b": holding(users={2})},
            id="a topic that nobody subscribes to any more is given up",
        ),
        pytest.param(
            [
                member("a", ORDERS, USERS, assigned=holding(orders={0, 1}, users={0, 1})),
                member("b", ORDERS, USERS),
                member("c", ORDERS, USERS),
            ],
            topics((ORDERS, 2), (USERS, 2)),
            {"a": holding(orders={0, 1}), "b": holding(users={0}), "c": holding(users={1})},
            id="who has too much gives up whole topics from the end",
        ),
        pytest.param(
            [
                member("a", ORDERS, assigned=holding(orders={0, 1})),
                member("b", ORDERS, assigned=holding(orders={1, 2, 9})),
            ],
            topics((ORDERS, 4)),
            {"a": holding(orders={0, 1}), "b": holding(orders={2, 3})},
            id="of two that had the same partition one keeps it, and none keeps one that does not exist",
        ),
        pytest.param(
            [member("a", ORDERS), member("b", ORDERS, USERS)],
            topics((ORDERS, 3), (USERS, 3)),
            {"a": holding(orders={0, 1, 2}), "b": holding(users={0, 1, 2})},
            id="who alone can have a topic gets less of the others",
        ),
        pytest.param(
            [member("a", ORDERS), member("b", ORDERS, USERS)],
            topics((ORDERS, 1), (USERS, 5)),
            {"a": holding(orders={0}), "b": holding(users={0, 1, 2, 3, 4})},
            id="subscriptions that differ are balanced no further than they allow",
        ),
        pytest.param(
            [
                member("a", ORDERS, assigned=holding(orders={0, 1, 2, 3})),
                member("b", ORDERS, USERS, assigned=holding(users={0, 1})),
            ],
            topics((ORDERS, 4), (USERS, 2)),
            {"a": holding(orders={0, 1, 2}), "b": holding(orders={3}, users={0, 1})},
            id="who has more gives what the other subscribes to",
        ),
        pytest.param(
            [
                member("a", ORDERS, assigned=holding(orders={0, 1, 2, 3, 4, 5})),
                member("b", ORDERS, USERS, assigned=holding(users={0, 1, 2})),
                member("c", USERS),
            ],
            topics((ORDERS, 6), (USERS, 3)),
            {"a": holding(orders={0, 1, 2, 3}), "b": holding(orders={4, 5}, users={0}), "c": holding(users={1, 2})},
            id="a member that joins unburdens another, and that one a third",
        ),
    ],
)
def test_the_target_of(members: Members, known: Topics, targets: dict[str, Assignment]) -> None:
    assert assign("uniform", members, known) == targets


# -- balance and stickiness


@given(groups(is_homogeneous=True, has_racks=True))
def test_members_that_subscribe_alike_differ_by_one_partition_at_most(group: tuple[Members, Topics]) -> None:
    members, known = group
    sizes = [size(target) for target in assign("uniform", members, known).values()]

    assert max(sizes) - min(sizes) <= 1


def assert_no_move_helps(members: Members, targets: Targets) -> None:
    """Whether no partition could move to a subscriber that has at least two fewer."""
    for giver in members:
        for taker in members:
            if taker.topic_ids & targets[giver.member_id].keys():
                assert size(targets[giver.member_id]) - size(targets[taker.member_id]) <= 1


@given(groups(has_racks=True))
def test_members_that_subscribe_differently_are_as_even_as_single_moves_allow(group: tuple[Members, Topics]) -> None:
    members, known = group

    assert_no_move_helps(members, assign("uniform", members, known))


@given(groups(is_homogeneous=True))
def test_members_that_subscribe_alike_keep_all_that_balance_allows(group: tuple[Members, Topics]) -> None:
    members, known = group
    targets = assign("uniform", members, known)
    subscribed = [known[topic_id] for topic_id in members[0].topic_ids if topic_id in known]
    quota, extra_count = divmod(sum(topic.partition_count for topic in subscribed), len(members))

    left = {(topic.id, partition) for topic in subscribed for partition in range(topic.partition_count)}
    had: list[int] = []
    for each in sorted(members, key=lambda each: each.member_id):
        had.append(len(left & pairs(each.assigned)))
        left -= pairs(each.assigned)
    kept_at_best = sum(min(count, quota) for count in had) + min(extra_count, sum(count > quota for count in had))

    assert sum(len(pairs(targets[each.member_id]) & pairs(each.assigned)) for each in members) >= kept_at_best


@given(groups(is_homogeneous=True), st.sampled_from("ijkl"))
def test_only_a_joining_member_gains_partitions(group: tuple[Members, Topics], new_member_id: str) -> None:
    members, known = group
    members = settled(members, assign("uniform", members, known))

    targets = assign("uniform", [*members, member(new_member_id, *members[0].topic_ids)], known)

    assert all(pairs(targets[each.member_id]) <= pairs(each.assigned) for each in members)


@given(groups(is_homogeneous=True))
def test_only_the_partitions_of_a_leaving_member_move(group: tuple[Members, Topics]) -> None:
    members, known = group
    _, *remaining = settled(members, assign("uniform", members, known))

    targets = assign("uniform", remaining, known)

    assert all(pairs(targets[each.member_id]) >= pairs(each.assigned) for each in remaining)


@given(groups(), st.lists(st.integers(0, 255), min_size=2, max_size=5))
def test_a_group_stays_balanced_while_members_come_and_go(group: tuple[Members, Topics], present: list[int]) -> None:
    everybody, known = group
    targets: Targets = {}
    for bits in present:
        members = [
            each._replace(assigned=targets.get(each.member_id, NOTHING))
            for number, each in enumerate(everybody)
            if bits >> number & 1
        ]
        targets = assign("uniform", members, known)
        assert_no_move_helps(members, targets)


def test_a_long_chain_of_subscriptions_ends_unbalanced_within_bounded_work() -> None:
    """Each member shares a topic with the next, so that a surplus moves along the chain one round at a time."""
    ids = [TopicId(UUID(int=number)) for number in range(40)]
    known = topics(*((topic_id, 200) for topic_id in ids[:-1]), (ids[-1], 1200))
    members = [
        member(f"m{number:02}", *ids[number : number + 2], assigned={ids[number]: frozenset(range(200))})
        for number in range(len(ids))
    ]

    targets = assign("uniform", members, known)

    given_out = [pair for target in targets.values() for pair in pairs(target)]
    assert len(given_out) == len(set(given_out)) == 39 * 200 + 1200
    assert size(targets[MemberId("m39")]) == size(targets[MemberId("m38")]) == 600


# -- racks


def test_partitions_go_to_members_in_their_rack() -> None:
    group = [member("a", ORDERS, rack_id="east"), member("b", ORDERS, rack_id="west"), member("c", ORDERS)]
    known = {ORDERS: racked(ORDERS, "west", "east", "north", "west", "east", "north")}

    assert assign("uniform", group, known) == {
        "a": holding(orders={1, 4}),
        "b": holding(orders={0, 3}),
        "c": holding(orders={2, 5}),
    }


def test_a_partition_that_is_near_stays_where_it_is() -> None:
    group = [
        member("a", ORDERS, rack_id="east", assigned=holding(orders={0, 3})),
        member("b", ORDERS, rack_id="west", assigned=holding(orders={1, 2})),
    ]
    known = {ORDERS: racked(ORDERS, "east west", "east west", "west", "east")}

    assert assign("uniform", group, known) == {each.member_id: each.assigned for each in group}


def test_of_two_equally_distant_partitions_the_one_that_moves_anyway_is_traded() -> None:
    group = [
        member("a", ORDERS, rack_id="east", assigned=holding(orders={0})),
        member("b", ORDERS, rack_id="west", assigned=holding(orders={2})),
    ]
    known = {ORDERS: racked(ORDERS, "west", "west", "west", "east")}

    # Partitions 1 and 3 are new, and were dealt to "a" and "b".
    assert assign("uniform", group, known) == {"a": holding(orders={0, 3}), "b": holding(orders={1, 2})}


def test_three_racks_trade_in_a_circle_where_no_two_can() -> None:
    group = [
        member("a", ORDERS, rack_id="east", assigned=holding(orders={0})),
        member("b", ORDERS, rack_id="north", assigned=holding(orders={1})),
        member("c", ORDERS, rack_id="south", assigned=holding(orders={2})),
    ]
    known = {ORDERS: racked(ORDERS, "north", "north south", "west")}

    assert assign("uniform", group, known) == {
        "a": holding(orders={2}),
        "b": holding(orders={0}),
        "c": holding(orders={1}),
    }


def test_where_subscriptions_differ_only_subscribers_of_the_same_topics_trade() -> None:
    group = [
        member("a", ORDERS, rack_id="east"),
        member("b", ORDERS, USERS, rack_id="west"),
        member("c", ORDERS, rack_id="west"),
    ]
    known = {ORDERS: racked(ORDERS, "west", "east"), USERS: racked(USERS, "east")}

    assert assign("uniform", group, known) == {
        "a": holding(orders={1}),
        "b": holding(users={0}),
        "c": holding(orders={0}),
    }


PLACES = [frozenset[str](), *(frozenset(pair) for pair in combinations_with_replacement(RACKS[:3], 2))]


@given(
    st.lists(st.sampled_from(PLACES), min_size=1, max_size=5),
    st.lists(st.sampled_from([None, *RACKS[:3]]), min_size=5, max_size=5),
)
def test_as_many_partitions_are_near_as_the_counts_allow(
    racks: list[frozenset[str]], member_racks: list[str | None]
) -> None:
    known = {ORDERS: racked(ORDERS, *map(" ".join, racks))}
    group = [member(str(number), ORDERS, rack_id=rack) for number, rack in enumerate(member_racks[: len(racks)])]

    at_best = max(
        sum(each.rack_id in partition for each, partition in zip(group, order, strict=True))
        for order in permutations(racks)
    )
    assert near_count(group, known, assign("uniform", group, known)) == at_best
