"""Uniform assignment where subscriptions differ: no partition could move to a subscriber with at least two fewer.

Each topic is given first to those that have least. Then the topics are levelled in turn, the busiest member that has a
partition of the topic giving it to the least busy subscriber, until no topic can be levelled further.
"""

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heapreplace
from typing import TypeAlias

from headwater.coordination.groups.assignment import Assignment, of
from headwater.coordination.groups.assignors.group_spec import Pool
from headwater.ids import TopicId

# Where subscriptions overlap in long chains, levelling one topic unsettles the next, over and over. As in Kafka it ends
# at some point, a little off balance; the next time the target is computed it goes on from there.
ROUND_COUNT_MAX = 64

# By member: what it holds of a pool; what it came by last is at the end, and is the first to go.
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
        before if (target := of(partitions)) == before else target
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
    """The more partitions there are for each subscriber, the harder they are to give to members that have few."""
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
    """How many partitions had to move."""
    givers = [(-loads[member], member) for member, partitions in held.items() if partitions]
    takers = [(loads[member], member) for member in pool.subscribers]
    if not givers or -min(givers)[0] - min(takers)[0] < 2:
        return 0
    heapify(givers)
    heapify(takers)
    move_count = 0
    # Who has given may still be listed as a taker with its former load, and the other way round. That does no harm:
    # nobody who has given falls below the least busy, and nobody who has taken rises above the busiest.
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
