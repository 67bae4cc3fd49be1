"""Uniform: the numbers of partitions that members get differ by at most one, and members keep as many as possible.

If subscriptions differ, the numbers are as even as moving single partitions can make them. Balance comes before racks,
and racks before stickiness.
"""

from collections.abc import Mapping, Sequence
from operator import attrgetter

from headwater.coordination.groups.assignment import Assignment
from headwater.coordination.groups.assignors.group_spec import MemberSubscription, SubscribedTopic, pools_of
from headwater.coordination.groups.assignors.rack_trades import may_match, trade_partitions
from headwater.coordination.groups.assignors.uniform_heterogeneous import assign_heterogeneous
from headwater.coordination.groups.assignors.uniform_homogeneous import assign_homogeneous
from headwater.ids import MemberId, TopicId


def assign_uniform(
    members: Sequence[MemberSubscription], topics: Mapping[TopicId, SubscribedTopic]
) -> Mapping[MemberId, Assignment]:
    ordered = sorted(members, key=attrgetter("member_id"))
    pools = pools_of(ordered, topics)
    free = {topic.id: set(range(topic.partition_count)) for pool in pools for topic in pool.topics}
    kept = [_keep(member, free) for member in ordered]
    if len(pools) == 1:
        targets = assign_homogeneous(pools[0], kept, free)
    else:
        targets = assign_heterogeneous(pools, kept, free)
    if may_match(ordered, topics.values()):
        targets = trade_partitions(ordered, pools, targets)
    return {member.member_id: target for member, target in zip(ordered, targets, strict=True)}


def _keep(member: MemberSubscription, free: Mapping[TopicId, set[int]]) -> Assignment:
    """The partitions that the member keeps, removed from `free`. If two members had the same one, one keeps it."""
    is_all = True
    kept: dict[TopicId, frozenset[int]] = {}
    for topic_id, partitions in member.assigned.items():
        left = free.get(topic_id)
        if not left or topic_id not in member.topic_ids:
            is_all = False
            continue
        if not partitions <= left:
            is_all = False
            partitions &= left
        left -= partitions
        if partitions:
            kept[topic_id] = partitions
    return member.assigned if is_all else kept
