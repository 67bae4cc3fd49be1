"""Rack awareness for the assignors: as the last step, members trade partitions to have near ones.

The order of precedence is balance, then racks, then stickiness. Partitions are traded one for one, so that balance is
kept, and only if more partitions are near their members afterwards. A group without racks, or one that racks cannot
improve, stays unchanged.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import combinations
from typing import TypeAlias

from headwater.coordination.groups.assignment import Assignment, assignment_of, difference, union
from headwater.coordination.groups.assignors.group_spec import MemberSubscription, Pool, SubscribedTopic
from headwater.ids import TopicId

NOWHERE: frozenset[str] = frozenset()

# By place: how many partitions of an item are near it. Items of the same worth are interchangeable.
Worth: TypeAlias = tuple[int, ...]
# The items at one place, by their worth.
Stock: TypeAlias = dict[Worth, list[int]]
# An item of this worth goes from this place to the next place of the cycle.
Step: TypeAlias = tuple[int, Worth]


def may_match(members: Iterable[MemberSubscription], topics: Iterable[SubscribedTopic]) -> bool:
    """Whether a trade could help: not if no racks are known or all replicas are in the same racks."""
    places = {racks for topic in topics for racks in topic.racks or (NOWHERE,)}
    return len(places) > 1 and any(member.rack_id is not None for member in members)


def trade_partitions(
    members: Sequence[MemberSubscription], pools: Sequence[Pool], targets: Sequence[Assignment]
) -> Sequence[Assignment]:
    """The targets after the subscribers of each pool have traded its partitions."""
    after = list(targets)
    pool_of = {topic.id: index for index, pool in enumerate(pools) for topic in pool.topics}
    topics = {topic.id: topic for pool in pools for topic in pool.topics}
    held: list[list[tuple[int, TopicId, int]]] = [[] for _ in pools]
    for owner, target in enumerate(targets):
        for topic_id in sorted(target, key=lambda topic_id: topic_id.int):
            held[pool_of[topic_id]].extend((owner, topic_id, partition) for partition in sorted(target[topic_id]))
    given: dict[int, list[tuple[TopicId, int]]] = {}
    taken: dict[int, list[tuple[TopicId, int]]] = {}
    for items in held:
        traded = trade(
            [owner for owner, _, _ in items],
            [(racks_of(topics[topic_id], partition),) for _, topic_id, partition in items],
            members,
            {
                item
                for item, (owner, topic_id, partition) in enumerate(items)
                if partition not in members[owner].assigned.get(topic_id, ())
            },
        )
        for (owner, topic_id, partition), new_owner in zip(items, traded, strict=True):
            if new_owner != owner:
                given.setdefault(owner, []).append((topic_id, partition))
                taken.setdefault(new_owner, []).append((topic_id, partition))
    for member, pairs in taken.items():
        after[member] = union(difference(targets[member], assignment_of(given[member])), assignment_of(pairs))
    return after


def racks_of(topic: SubscribedTopic, partition: int) -> frozenset[str]:
    return topic.racks[partition] if topic.racks else NOWHERE


def trade(
    owners: Sequence[int],
    racks: Sequence[tuple[frozenset[str], ...]],
    members: Sequence[MemberSubscription],
    loose: Collection[int] = frozenset(),
) -> Sequence[int]:
    """The owners of items, as indexes into `members`, after all trades that bring more partitions near.

    Any owner may have any item. An item is one partition, or several that stay together, with the racks of each. Among
    items of the same worth, `loose` ones are traded first.
    """
    distinct = set(racks)
    replica_racks = {rack for item in distinct for partition in item for rack in partition}
    # The members of a rack form one place. Members without a rack that has replicas form another, the last.
    near = sorted({member.rack_id for member in members if member.rack_id in replica_racks})
    place_of_rack: dict[str | None, int] = {rack: place for place, rack in enumerate(near)}
    place_of = [place_of_rack.get(member.rack_id, len(near)) for member in members]
    worth_of = {item: (*(sum(rack in partition for partition in item) for rack in near), 0) for item in distinct}
    stocks: list[Stock] = [{} for _ in range(len(near) + 1)]
    for item in sorted(range(len(owners)), key=loose.__contains__):
        stocks[place_of[owners[item]]].setdefault(worth_of[racks[item]], []).append(item)
    after = list(owners)
    steps = [_steps(place, stocks) for place in range(len(stocks))]
    while cycle := _gainful_pair(steps) or _gainful_cycle(steps):
        _pass_on(cycle, stocks, after)
        for place, _ in cycle:
            steps[place] = _steps(place, stocks)
    return after


def _steps(place: int, stocks: Sequence[Stock]) -> Sequence[tuple[int, Worth]]:
    """By destination: the largest gain, and the worth of an item that has it. Empty for a place without items."""
    stock = stocks[place]
    return [max((worth[to] - worth[place], worth) for worth in stock) for to in range(len(stocks)) if stock]


def _gainful_pair(steps: Sequence[Sequence[tuple[int, Worth]]]) -> Sequence[Step]:
    """The two places that gain most by a trade with each other. Most often no longer cycle is needed."""
    stocked = [place for place, ways in enumerate(steps) if ways]
    pairs = ((steps[one][other][0] + steps[other][one][0], one, other) for one, other in combinations(stocked, 2))
    gain, one, other = max(pairs, default=(0, 0, 0))
    return ((one, steps[one][other][1]), (other, steps[other][one][1])) if gain > 0 else ()


def _gainful_cycle(steps: Sequence[Sequence[tuple[int, Worth]]]) -> Sequence[Step]:
    """A cycle of places, each passing an item on to the next, after which more partitions are near; or nothing.

    This is the Bellman-Ford search for a cycle of positive length. Without such a cycle, no other distribution with the
    same number of items at each place has more partitions near. So trading ends at the optimum, after at most as many
    cycles as there are partitions.
    """
    gained = [0 for _ in steps]
    came: dict[int, Step] = {}
    growing: int | None = None
    for _ in steps:
        growing = None
        for place, ways in enumerate(steps):
            for to, (gain, worth) in enumerate(ways):
                if gained[place] + gain > gained[to]:
                    gained[to] = gained[place] + gain
                    came[to] = (place, worth)
                    growing = to
        if growing is None:
            return ()
    assert growing is not None
    # A place that still gains after as many rounds as there are places is reachable from a cycle. As many steps back
    # lead onto the cycle.
    for _ in steps:
        growing, _ = came[growing]
    cycle = [came[growing]]
    while cycle[-1][0] != growing:
        cycle.append(came[cycle[-1][0]])
    return cycle[::-1]


def _pass_on(cycle: Sequence[Step], stocks: Sequence[Stock], owners: list[int]) -> None:
    """Repeats the cycle as often as there are items for it, because each pass gains the same."""
    count = min(len(stocks[place][worth]) for place, worth in cycle)
    moving = [_take(stocks[place], worth, count) for place, worth in cycle]
    heirs = [[owners[item] for item in items] for items in moving]
    for index, (_, worth) in enumerate(cycle):
        following = (index + 1) % len(cycle)
        stocks[cycle[following][0]].setdefault(worth, []).extend(moving[index])
        for item, owner in zip(moving[index], heirs[following], strict=True):
            owners[item] = owner


def _take(stock: Stock, worth: Worth, count: int) -> Sequence[int]:
    items = stock.pop(worth)
    if len(items) > count:
        stock[worth] = items[:-count]
    return items[-count:]
