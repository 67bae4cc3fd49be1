"""Rack awareness for the assignors: once everything else is settled, members trade partitions to have near ones.

The order of precedence is balance, then racks, then stickiness. A trade is one for one, so that nobody ends up with
more or fewer partitions, and takes place only if more partitions are near their members after it: a group that racks
cannot improve, or that knows none, is left as it was.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import combinations
from typing import TypeAlias

from headwater.coordination.groups.assignment import Assignment, difference, of, union
from headwater.coordination.groups.assignors.group_spec import MemberSubscription, Pool, SubscribedTopic
from headwater.ids import TopicId

NOWHERE: frozenset[str] = frozenset()

# By place: how many partitions of an item are near. Items of the same worth are as good as each other.
Worth: TypeAlias = tuple[int, ...]
# Which items are at one place, by their worth.
Stock: TypeAlias = dict[Worth, list[int]]
# Something of this worth goes from this place to the next one of the cycle.
Step: TypeAlias = tuple[int, Worth]


def may_match(members: Iterable[MemberSubscription], topics: Iterable[SubscribedTopic]) -> bool:
    """Whether it can matter who has what: not if nothing is known or everything is in the same place."""
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
        after[member] = union(difference(targets[member], of(given[member])), of(pairs))
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

    Any owner may have any item. An item is one partition, or several that stay together, with the racks of each. Items
    that are `loose` go rather than others of the same worth.
    """
    distinct = set(racks)
    replica_racks = {rack for item in distinct for partition in item for rack in partition}
    # Members of a rack are one place, and so are all members that are near nothing: the last place.
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
    """By place to go to: what gains most by going there, after how much it gains. Nothing where there is nothing."""
    stock = stocks[place]
    return [max((worth[to] - worth[place], worth) for worth in stock) for to in range(len(stocks)) if stock]


def _gainful_pair(steps: Sequence[Sequence[tuple[int, Worth]]]) -> Sequence[Step]:
    """The two places that gain most by a trade with each other; most often this is all that there is to do."""
    stocked = [place for place, ways in enumerate(steps) if ways]
    pairs = ((steps[one][other][0] + steps[other][one][0], one, other) for one, other in combinations(stocked, 2))
    gain, one, other = max(pairs, default=(0, 0, 0))
    return ((one, steps[one][other][1]), (other, steps[other][one][1])) if gain > 0 else ()


def _gainful_cycle(steps: Sequence[Sequence[tuple[int, Worth]]]) -> Sequence[Step]:
    """Places, each passing an item on to the next and the last to the first, with more near than before; or none.

    This is Bellman and Ford's search for a cycle of positive length. If there is none, then no other way to give as
    many items to each place has more near; so trading ends at the best, after no more cycles than there are partitions.
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
    # What still grows after as many rounds as there are places is behind a cycle, and on it as many steps back.
    for _ in steps:
        growing, _ = came[growing]
    cycle = [came[growing]]
    while cycle[-1][0] != growing:
        cycle.append(came[cycle[-1][0]])
    return cycle[::-1]


def _pass_on(cycle: Sequence[Step], stocks: Sequence[Stock], owners: list[int]) -> None:
    """As often as there are items for it, because each time gains the same."""
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
