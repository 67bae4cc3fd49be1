"""Range: runs, co-partitioning, and the place of static members."""

from collections import Counter

import pytest
from hypothesis import given

from headwater.coordination.groups.assignment import NOTHING, Assignment
from headwater.coordination.groups.assignors.assignor import assign
from tests.coordination.groups.assignors.groups import (
    ORDERS,
    USERS,
    VIEWS,
    Members,
    Topics,
    blind,
    groups,
    holding,
    member,
    near_count,
    racked,
    topics,
)


@pytest.mark.parametrize(
    ("members", "known", "targets"),
    [
        pytest.param(
            [member("a", ORDERS, USERS), member("b", ORDERS, USERS)],
            topics((ORDERS, 5), (USERS, 5)),
            {"a": holding(orders={0, 1, 2}, users={0, 1, 2}), "b": holding(orders={3, 4}, users={3, 4})},
            id="topics of the same size are cut alike",
        ),
        pytest.param(
            [member("a", ORDERS, USERS), member("b", ORDERS, USERS)],
            topics((ORDERS, 4), (USERS, 3)),
            {"a": holding(orders={0, 1}, users={0, 1}), "b": holding(orders={2, 3}, users={2})},
            id="topics of different sizes are cut one by one",
        ),
        pytest.param(
            [member("a", ORDERS), member("b", ORDERS), member("c", ORDERS)],
            topics((ORDERS, 2)),
            {"a": holding(orders={0}), "b": holding(orders={1}), "c": NOTHING},
            id="more members than partitions leave the last with nothing",
        ),
        pytest.param(
            [member("a", ORDERS, USERS), member("b", USERS), member("c", USERS, VIEWS)],
            topics((ORDERS, 2), (USERS, 4), (VIEWS, 2)),
            {
                "a": holding(orders={0, 1}, users={0, 1}),
                "b": holding(users={2}),
                "c": holding(users={3}, views={0, 1}),
            },
            id="each topic is shared by its own subscribers",
        ),
        pytest.param(
            [member("a", ORDERS), member("z", ORDERS, instance_id="two"), member("y", ORDERS, instance_id="three")],
            topics((ORDERS, 6)),
            {"y": holding(orders={0, 1}), "z": holding(orders={2, 3}), "a": holding(orders={4, 5})},
            id="static members come first, by instance id",
        ),
        pytest.param(
            [
                member("a", ORDERS, assigned=holding(orders={2, 3})),
                member("b", ORDERS, assigned=holding(orders={0, 1})),
            ],
            topics((ORDERS, 4)),
            {"a": holding(orders={0, 1}), "b": holding(orders={2, 3})},
            id="what members had before plays no part",
        ),
    ],
)
def test_the_target_of(members: Members, known: Topics, targets: dict[str, Assignment]) -> None:
    assert assign("range", members, known) == targets


def test_a_restart_of_static_members_moves_nothing() -> None:
    known = topics((ORDERS, 7), (USERS, 7))
    before = [member("m1", ORDERS, USERS, instance_id="i1"), member("m2", ORDERS, USERS, instance_id="i2")]
    after = [member("x9", ORDERS, USERS, instance_id="i1"), member("x3", ORDERS, USERS, instance_id="i2")]

    old, new = assign("range", before, known), assign("range", after, known)

    assert [new[each.member_id] for each in after] == [old[each.member_id] for each in before]


def test_racks_are_honoured_and_co_partitioned_partitions_stay_together() -> None:
    group = [member("a", ORDERS, USERS, rack_id="east"), member("b", ORDERS, USERS, rack_id="west")]
    known = {
        ORDERS: racked(ORDERS, "west", "east", "west", "east"),
        USERS: racked(USERS, "west", "east", "west", "north"),
    }

    assert assign("range", group, known) == {
        "a": holding(orders={1, 3}, users={1, 3}),
        "b": holding(orders={0, 2}, users={0, 2}),
    }


@given(groups(has_racks=True))
def test_equal_partitions_of_topics_with_equal_subscribers_go_to_one_member(group: tuple[Members, Topics]) -> None:
    members, known = group
    targets = assign("range", members, known)
    owners = {
        (topic_id, partition): each
        for each, target in targets.items()
        for topic_id, partitions in target.items()
        for partition in partitions
    }
    subscribers = {topic_id: {each.member_id for each in members if topic_id in each.topic_ids} for topic_id in known}
    for one in known.values():
        for other in known.values():
            if one.partition_count == other.partition_count and subscribers[one.id] == subscribers[other.id]:
                assert all(
                    owners.get((one.id, partition)) == owners.get((other.id, partition))
                    for partition in range(one.partition_count)
                )


@given(groups())
def test_the_partitions_of_a_topic_are_split_into_even_runs(group: tuple[Members, Topics]) -> None:
    members, known = group
    targets = assign("range", members, known)
    for topic in known.values():
        runs = [targets[each.member_id].get(topic.id, frozenset()) for each in members if topic.id in each.topic_ids]
        assert all(len(run) == max(run) - min(run) + 1 for run in runs if run)
        assert not runs or max(map(len, runs)) - min(map(len, runs)) <= 1


@given(groups(has_racks=True))
def test_racks_leave_the_counts_of_each_topic_as_they_are(group: tuple[Members, Topics]) -> None:
    members, known = group
    targets, rack_blind = assign("range", members, known), assign("range", members, blind(known))

    for each in members:
        counts, blind_counts = (
            Counter({topic_id: len(partitions) for topic_id, partitions in those[each.member_id].items()})
            for those in (targets, rack_blind)
        )
        assert counts == blind_counts
    assert near_count(members, known, targets) >= near_count(members, known, rack_blind)
