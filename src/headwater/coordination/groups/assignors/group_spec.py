"""The input of an assignor: the subscription of each member and its previous target."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from headwater.coordination.groups.assignment import Assignment
from headwater.ids import MemberId, TopicId


class MemberSubscription(NamedTuple):
    member_id: MemberId
    instance_id: str | None
    rack_id: str | None
    topic_ids: frozenset[TopicId]
    # The previous target of the member, whether or not the member has reached it.
    assigned: Assignment


class SubscribedTopic(NamedTuple):
    id: TopicId
    partition_count: int
    # By partition: the racks of its replicas. Empty if they are not known.
    racks: Sequence[frozenset[str]] = ()


Assignor: TypeAlias = Callable[
    [Sequence[MemberSubscription], Mapping[TopicId, SubscribedTopic]], Mapping[MemberId, Assignment]
]


class Pool(NamedTuple):
    """Topics that have the same subscribers, so that each subscriber may have any partition of them."""

    # By id.
    topics: Sequence[SubscribedTopic]
    # Ascending indexes into the members that the pools were made from.
    subscribers: Sequence[int]


def pools_of(members: Sequence[MemberSubscription], topics: Mapping[TopicId, SubscribedTopic]) -> Sequence[Pool]:
    """All topics that have subscribers, in an order that depends on topic ids alone."""
    # There are many topics, and most members have the same subscription. So topics are visited once per distinct
    # subscription, not once per member.
    subscribers: dict[frozenset[TopicId], list[int]] = {}
    for index, member in enumerate(members):
        subscribers.setdefault(member.topic_ids, []).append(index)
    sharers: dict[TopicId, list[frozenset[TopicId]]] = {}
    for subscription in subscribers:
        for topic_id in subscription:
            sharers.setdefault(topic_id, []).append(subscription)
    shared: dict[tuple[frozenset[TopicId], ...], list[SubscribedTopic]] = {}
    for topic_id in sorted(sharers.keys() & topics.keys(), key=lambda topic_id: topic_id.int):
        shared.setdefault(tuple(sharers[topic_id]), []).append(topics[topic_id])
    return [
        Pool(together, sorted(index for subscription in subscriptions for index in subscribers[subscription]))
        for subscriptions, together in shared.items()
    ]
