"""Uniform assignment if all topics have the same subscribers: exactly balanced, with as few moves as possible."""

from collections import deque
from collections.abc import Mapping, Sequence

from headwater.coordination.groups.assignment import Assignment
from headwater.coordination.groups.assignors.group_spec import Pool
from headwater.ids import TopicId

NO_PARTITIONS: frozenset[int] = frozenset()


def assign_homogeneous(
    pool: Pool, kept: Sequence[Assignment], free: Mapping[TopicId, set[int]]
) -> Sequence[Assignment]:
    """The targets of members that keep `kept`, except for what they must give up. Uses up `free`."""
    targets = list(kept)
    room = _room(pool, kept)
    for member in pool.subscribers:
        if room[member] < 0:
            targets[member] = _without(kept[member], -room[member], free)
    _deal(pool, free, room, targets)
    return targets


def _room(pool: Pool, kept: Sequence[Assignment]) -> list[int]:
    """How many more partitions each member takes. Negative: how many it must give up."""
    sizes = [sum(map(len, held.values())) for held in kept]
    quota, extra_count = divmod(sum(topic.partition_count for topic in pool.topics), len(pool.subscribers))
    room = [quota - size for size in sizes]
    # Members that already have more than the quota come first, so that they need not give up the extra partition.
    for member in sorted(pool.subscribers, key=lambda member: room[member] >= 0)[:extra_count]:
        room[member] += 1
    return room


def _without(held: Assignment, count: int, free: Mapping[TopicId, set[int]]) -> Assignment:
    """`held` without its last `count` partitions, which are added to `free`."""
    rest = dict(held)
    for topic_id in sorted(held, key=lambda topic_id: topic_id.int, reverse=True):
        given = sorted(held[topic_id])[-count:]
        free[topic_id].update(given)
        count -= len(given)
        rest[topic_id] = held[topic_id].difference(given)
        if not rest[topic_id]:
            del rest[topic_id]
        if not count:
            break
    return rest


def _deal(pool: Pool, free: Mapping[TopicId, set[int]], room: list[int], targets: list[Assignment]) -> None:
    """Deals free partitions in turn, so that each topic is spread over as many members as possible."""
    turn = deque(member for member in pool.subscribers if room[member] > 0)
    takers: dict[int, dict[TopicId, frozenset[int]]] = {}
    for topic in pool.topics:
        dealt: dict[int, list[int]] = {}
        for partition in sorted(free[topic.id]):
            member = turn.popleft()
            dealt.setdefault(member, []).append(partition)
            room[member] -= 1
            if room[member]:
                turn.append(member)
        for member, partitions in dealt.items():
            if member not in takers:
                targets[member] = takers[member] = dict(targets[member])
            taker = takers[member]
            taker[topic.id] = taker.get(topic.id, NO_PARTITIONS).union(partitions)
