"""Range: each topic's partitions are cut into runs, one for each subscriber.

Topics with the same subscribers and the same number of partitions are co-partitioned: partition n of each goes to the
same member, so that streams can be joined by partition. Static members come first, by instance id, so that a restart
with new member ids moves nothing. Previous targets are ignored. If racks are known, the partitions n of co-partitioned
topics are traded together, and the runs may then have holes.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from headwater.coordination.groups.assignment import Assignment
from headwater.coordination.groups.assignors.group_spec import MemberSubscription, SubscribedTopic, pools_of
from headwater.coordination.groups.assignors.rack_trades import may_match, racks_of, trade
from headwater.ids import MemberId, TopicId


def assign_range(
    members: Sequence[MemberSubscription], topics: Mapping[TopicId, SubscribedTopic]
) -> Mapping[MemberId, Assignment]:
    ordered = sorted(members, key=_place)
    targets: list[dict[TopicId, frozenset[int]]] = [{} for _ in ordered]
    for pool in pools_of(ordered, topics):
        for alike in _co_partitioned(pool.topics):
            runs = _runs(pool.subscribers, alike[0].partition_count)
            if may_match(ordered, alike):
                runs = _trade(runs, ordered, alike)
            for member, partitions in runs.items():
                for topic in alike:
                    targets[member][topic.id] = partitions
    return {
        member.member_id: member.assigned if target == member.assigned else target
        for member, target in zip(ordered, targets, strict=True)
    }


def _place(member: MemberSubscription) -> tuple[bool, str]:
    return (True, member.member_id) if member.instance_id is None else (False, member.instance_id)


def _co_partitioned(topics: Sequence[SubscribedTopic]) -> Sequence[Sequence[SubscribedTopic]]:
    alike: dict[int, list[SubscribedTopic]] = {}
    for topic in topics:
        alike.setdefault(topic.partition_count, []).append(topic)
    return list(alike.values())


def _runs(subscribers: Sequence[int], partition_count: int) -> Mapping[int, frozenset[int]]:
    """Runs of the same length, or longer by one for the first members; no run is empty."""
    length, longer_count = divmod(partition_count, len(subscribers))
    taking = subscribers[:partition_count]
    starts = [index * length + min(index, longer_count) for index in range(len(taking) + 1)]
    return {member: frozenset(range(*run)) for member, run in zip(taking, pairwise(starts), strict=True)}


def _trade(
    runs: Mapping[int, frozenset[int]], members: Sequence[MemberSubscription], alike: Sequence[SubscribedTopic]
) -> Mapping[int, frozenset[int]]:
    owners = [member for member, partitions in runs.items() for _ in partitions]
    racks = [tuple(racks_of(topic, partition) for topic in alike) for partition in range(alike[0].partition_count)]
    traded: dict[int, set[int]] = {}
    for partition, owner in enumerate(trade(owners, racks, members)):
        traded.setdefault(owner, set()).add(partition)
    return {member: frozenset(partitions) for member, partitions in traded.items()}
