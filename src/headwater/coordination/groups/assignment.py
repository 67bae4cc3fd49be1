"""Partitions by topic id, as members of a group hold them, with the set operations that groups need."""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from headwater.ids import TopicId

# Invariant: no topic has an empty set of partitions. Values are never changed in place.
Assignment: TypeAlias = Mapping[TopicId, frozenset[int]]

NOTHING: Assignment = {}


def union(one: Assignment, other: Assignment) -> Assignment:
    if not one or not other:
        return one or other
    both = dict(one)
    for topic_id, partitions in other.items():
        both[topic_id] = both[topic_id] | partitions if topic_id in both else partitions
    return both


def intersection(one: Assignment, other: Assignment) -> Assignment:
    return {
        topic_id: common
        for topic_id, partitions in one.items()
        if topic_id in other and (common := partitions & other[topic_id])
    }


def difference(one: Assignment, other: Assignment) -> Assignment:
    return {
        topic_id: rest
        for topic_id, partitions in one.items()
        if (rest := partitions - other[topic_id] if topic_id in other else partitions)
    }


def contains(whole: Assignment, part: Assignment) -> bool:
    return all(topic_id in whole and partitions <= whole[topic_id] for topic_id, partitions in part.items())


def assignment_of(pairs: Iterable[tuple[TopicId, int]]) -> Assignment:
    gathered: dict[TopicId, set[int]] = {}
    for topic_id, partition in pairs:
        gathered.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(partitions) for topic_id, partitions in gathered.items()}
