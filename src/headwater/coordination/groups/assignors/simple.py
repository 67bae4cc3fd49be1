"""The assignor of share groups: each partition has members, each member has partitions, about as many as the others.

Members may share a partition. With more partitions than members nobody has to; with fewer, each member has one
partition and each partition about as many members as the others. Members keep what they have as far as that allows.
"""

from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple, TypeAlias

from headwater.coordination.groups.assignment import Assignment, assignment_of
from headwater.ids import MemberId, TopicId

_Partition: TypeAlias = tuple[TopicId, int]


class ShareSubscription(NamedTuple):
    member_id: MemberId
    # Of topics that exist.
    topic_ids: frozenset[TopicId]
    # What the member has now.
    assigned: Assignment


def assign_simple(
    members: Sequence[ShareSubscription], partition_counts: Mapping[TopicId, int]
) -> Mapping[MemberId, Assignment]:
    """The new target of every member. The order of members and topics makes no difference."""
    members = sorted(members, key=lambda member: member.member_id)
    by_topics: dict[frozenset[TopicId], list[ShareSubscription]] = {}
    for member in members:
        by_topics.setdefault(member.topic_ids, []).append(member)
    partitions = [
        (topic_id, index)
        for topic_id in sorted({each for ids in by_topics for each in ids}, key=lambda each: each.bytes)
        for index in range(partition_counts[topic_id])
    ]
    given: dict[MemberId, set[_Partition]] = {member.member_id: set() for member in members}
    sharers = dict.fromkeys(partitions, 0)
    for member, partition in _kept(members, partitions, partition_counts):
        given[member].add(partition)
        sharers[partition] += 1
    _give_to_least_loaded(members, [each for each in partitions if not sharers[each]], given, sharers)
    _give_to_empty_handed(by_topics, given, sharers)
    return {member_id: assignment_of(taken) for member_id, taken in given.items()}


def _kept(
    members: Sequence[ShareSubscription], partitions: Sequence[_Partition], partition_counts: Mapping[TopicId, int]
) -> Iterator[tuple[MemberId, _Partition]]:
    """What members keep: no more than an equal share, nor a partition that has its share of members."""
    if not partitions:
        return
    equal, larger = divmod(len(partitions), len(members))
    sharers_max = -(-len(members) // len(partitions))
    sharers = dict.fromkeys(partitions, 0)
    for member in members:
        quota = equal + (larger > 0) if equal else 1
        kept = 0
        for topic_id in sorted(member.assigned.keys() & member.topic_ids, key=lambda each: each.bytes):
            for index in sorted(member.assigned[topic_id]):
                is_there = index < partition_counts[topic_id]
                if is_there and kept < quota and sharers[topic_id, index] < sharers_max:
                    kept += 1
                    sharers[topic_id, index] += 1
                    yield member.member_id, (topic_id, index)
        # Only so many members may have one partition more than the others.
        larger -= kept > equal


def _give_to_least_loaded(
    members: Sequence[ShareSubscription],
    partitions: Sequence[_Partition],
    given: Mapping[MemberId, set[_Partition]],
    sharers: dict[_Partition, int],
) -> None:
    """Give partitions that nobody has to the members that have the fewest."""
    heaps: dict[TopicId, list[tuple[int, MemberId]]] = {}
    for topic_id, _ in partitions:
        if topic_id not in heaps:
            heaps[topic_id] = [
                (len(given[each.member_id]), each.member_id) for each in members if topic_id in each.topic_ids
            ]
            heapify(heaps[topic_id])
    for partition in partitions:
        heap = heaps[partition[0]]
        while True:
            load, member_id = heappop(heap)
            if load == len(given[member_id]):
                break
            # The member got partitions of another topic meanwhile.
            heappush(heap, (len(given[member_id]), member_id))
        given[member_id].add(partition)
        sharers[partition] += 1
        heappush(heap, (load + 1, member_id))


def _give_to_empty_handed(
    by_topics: Mapping[frozenset[TopicId], Sequence[ShareSubscription]],
    given: Mapping[MemberId, set[_Partition]],
    sharers: dict[_Partition, int],
) -> None:
    """Members without a partition share the partitions that have the fewest members."""
    for topic_ids, members in by_topics.items():
        empty_handed = [member.member_id for member in members if not given[member.member_id]]
        if not empty_handed:
            continue
        heap = [(count, each[0].bytes, each) for each, count in sharers.items() if each[0] in topic_ids]
        heapify(heap)
        for member_id in empty_handed:
            if not heap:
                break
            count, order, partition = heappop(heap)
            given[member_id].add(partition)
            sharers[partition] += 1
            heappush(heap, (count + 1, order, partition))
