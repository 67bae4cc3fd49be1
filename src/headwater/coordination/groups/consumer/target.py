"""Target assignments: the result of the assignor, and the events that change the previous targets into it."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from headwater.coordination.catalog.events import Topic
from headwater.coordination.groups.assignment import NOTHING, Assignment
from headwater.coordination.groups.assignors.assignor import MemberSubscription, SubscribedTopic, assign
from headwater.coordination.groups.consumer.events import TargetEpochStored, TargetStored
from headwater.coordination.groups.consumer.member import ConsumerMember
from headwater.coordination.groups.consumer.subscriptions import Regexes, TopicSubscription, topic_ids_of
from headwater.coordination.groups.terms import TopicImage
from headwater.ids import GroupId, MemberId, TopicId


class Assignable(NamedTuple):
    """Everything that targets are computed from."""

    members: Collection[ConsumerMember]
    # The previous targets. A static member has that of the member whose place it takes.
    targets: Mapping[MemberId, Assignment]
    regexes: Regexes
    topics: TopicImage


def compute_targets(assignable: Assignable, assignor: str) -> Mapping[MemberId, Assignment]:
    members, targets, regexes, topics = assignable
    # Members with the same subscription share one set object, so that assignors compare them by identity first.
    topic_ids: dict[TopicSubscription, frozenset[TopicId]] = {}
    subscriptions: list[MemberSubscription] = []
    for member in members:
        subscription = member.subscription
        if subscription not in topic_ids:
            topic_ids[subscription] = topic_ids_of(subscription, regexes, topics)
        subscriptions.append(
            MemberSubscription(
                member.id,
                member.details.instance_id,
                member.details.rack_id,
                topic_ids[subscription],
                targets.get(member.id, NOTHING),
            )
        )
    subscribed_ids = frozenset[TopicId]().union(*topic_ids.values())
    has_racks = any(member.details.rack_id is not None for member in members)
    subscribed = {topic_id: _subscribed(topics.by_id[topic_id], topics, has_racks) for topic_id in subscribed_ids}
    return assign(assignor, subscriptions, subscribed)


def target_events(
    group_id: GroupId,
    epoch: int,
    before: Mapping[MemberId, Assignment],
    after: Mapping[MemberId, Assignment],
    wall_ms: int,
) -> Iterator[TargetStored | TargetEpochStored]:
    for member_id, partitions in after.items():
        former = before.get(member_id)
        if former is None or (former is not partitions and former != partitions):
            yield TargetStored(group_id, member_id, partitions)
    # Last, so that a log cut before it shows incomplete targets.
    yield TargetEpochStored(group_id, epoch, wall_ms)


def preferred_assignor(members: Collection[ConsumerMember], configured: Sequence[str]) -> str:
    """The assignor that most members chose; in a tie, the first of them in `group.consumer.assignors`."""
    votes = dict.fromkeys(configured, 0)
    for member in members:
        if member.details.assignor in votes:
            votes[member.details.assignor] += 1
    return max(votes, key=votes.__getitem__)


def _subscribed(topic: Topic, topics: TopicImage, has_racks: bool) -> SubscribedTopic:
    racks = [topics.racks(topic.id, partition) for partition in range(topic.partition_count)] if has_racks else []
    return SubscribedTopic(topic.id, topic.partition_count, racks if any(racks) else ())
