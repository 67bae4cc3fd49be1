"""Uniform assignment if subscriptions differ: no partition could move to a subscriber with at least two fewer.

The partitions of each topic first go to the subscribers with the fewest partitions. Then the topics are levelled in
turn, until none can be levelled further: the busiest owner of a partition of the topic gives it to the least busy
subscriber.
"""

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heapreplace
from typing import TypeAlias

from headwater.coordination.groups.assignment import Assignment, assignment_of
from headwater.coordination.groups.assignors.group_spec import Pool
from headwater.ids import TopicId

# If subscriptions overlap in long chains, levelling one topic unbalances the next, over and over. As in Kafka, the
# rounds are bounded: the target may be a little off balance, and the next computation continues from there.
ROUND_COUNT_MAX = 64

# By member: the partitions of a pool that it holds. The one that it got last is at the end, and is given away first.
Holdings: TypeAlias = dict[int, list[tuple[TopicId, int]]]


def assign_heterogeneous(
    pools: Sequence[Pool], kept: Sequence[Assignment], free: Mapping[TopicId, set[int]]
) -> Sequence[Assignment]:
    """The targets of members that keep the given assignments, except for what they must give up."""
    loads = [sum(map(len, held.values())) for held in kept]
    holdings = _holdings(pools, kept)
    hardest_first = sorted(zip(pools, holdings, strict=True), key=lambda pair: _ease(pair[0]))
    for pool, held in hardest_first:
        _place(pool, held, free, loads)
    for _ in range(ROUND_COUNT_MAX):
        move_count = sum(_level(pool, held, loads) for pool, held in hardest_first)
        if not move_count:
            break
    targets: list[list[tuple[TopicId, int]]] = [[] for _ in kept]
    for held in holdings:
        for member, partitions in held.items():
            targets[member].extend(partitions)
    return [
        before if (target := assignment_of(partitions)) == before else target
        for before, partitions in zip(kept, targets, strict=True)
    ]


def _holdings(pools: Sequence[Pool], kept: Sequence[Assignment]) -> Sequence[Holdings]:
    holdings: list[Holdings] = [{} for _ in pools]
    holdings_of = {topic.id: held for pool, held in zip(pools, holdings, strict=True) for topic in pool.topics}
    for member, assignment in enumerate(kept):
        for topic_id in sorted(assignment, key=lambda topic_id: topic_id.int):
            held = holdings_of[topic_id].setdefault(member, [])
            held.extend((topic_id, partition) for partition in sorted(assignment[topic_id]))
    return holdings


def _ease(pool: Pool) -> tuple[float, int, int]:
    """A sort key, hardest first: many partitions per subscriber are hard to give to members with few."""
    partition_count = sum(topic.partition_count for topic in pool.topics)
    return -partition_count / len(pool.subscribers), len(pool.subscribers), pool.topics[0].id.int


def _place(pool: Pool, held: Holdings, free: Mapping[TopicId, set[int]], loads: list[int]) -> None:
    takers = [(loads[member], member) for member in pool.subscribers]
    heapify(takers)
    for topic in pool.topics:
        for partition in sorted(free[topic.id]):
            load, taker = takers[0]
            held.setdefault(taker, []).append((topic.id, partition))
            loads[taker] = load + 1
            heapreplace(takers, (load + 1, taker))


def _level(pool: Pool, held: Holdings, loads: list[int]) -> int:
    """Levels the topics of the pool and returns the number of partitions moved."""
    givers = [(-loads[member], member) for member, partitions in held.items() if partitions]
    takers = [(loads[member], member) for member in pool.subscribers]
    if not givers or -min(givers)[0] - min(takers)[0] < 2:
        return 0
    heapify(givers)
    heapify(takers)
    move_count = 0
    # A giver may still be listed as a taker with its former load, and the other way round. That does no harm: a giver
    # never falls below the least busy member, and a taker never rises above the busiest.
    while givers and -givers[0][0] - takers[0][0] >= 2:
        giver, taker = givers[0][1], takers[0][1]
        held.setdefault(taker, []).append(held[giver].pop())
        loads[giver] -= 1
        loads[taker] += 1
        move_count += 1
        heapreplace(takers, (loads[taker], taker))
        if held[giver]:
            heapreplace(givers, (-loads[giver], giver))
        else:
            heappop(givers)
    return move_count
