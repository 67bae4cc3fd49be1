"""The consequences of a member's heartbeat or join: a new group epoch, new targets, and the member's own next step.

Each stage works on the result of the stage before, as plain values; the group itself does not change here. The event
with the group's epoch comes first, so that a log cut anywhere behind it shows that new targets are due.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headwater.coordination.decisions import Now
from headwater.coordination.groups.assignment import NOTHING, Assignment
from headwater.coordination.groups.consumer.events import (
    REBALANCE,
    ConsumerGroupStored,
    CurrentForgotten,
    MemberDeadlineSet,
    MemberForgotten,
    MemberStored,
    RegexForgotten,
    RegexResolved,
    TargetForgotten,
    TargetStored,
    TopicsSeen,
)
from headwater.coordination.groups.consumer.member import ConsumerMember
from headwater.coordination.groups.consumer.reconciliation import Goal, reconcile
from headwater.coordination.groups.consumer.roster import ConsumerRoster
from headwater.coordination.groups.consumer.subscriptions import (
    REGEXES_MAX,
    Regexes,
    Subscribers,
    metadata_hash,
    regexes_of,
    resolve,
    resubscribe,
    subscribed_names,
    topic_ids_of,
)
from headwater.coordination.groups.consumer.target import Assignable, compute_targets, preferred_assignor, target_events
from headwater.coordination.groups.terms import TopicImage
from headwater.errors import ErrorCode, Refusal
from headwater.ids import GroupId, MemberId, TopicId, TopicName


class Arrival(NamedTuple):
    """A member that sends a heartbeat or joins."""

    # As it was until now. A new member has no subscription and no assignment.
    before: ConsumerMember
    # As the request changes them.
    details: MemberStored
    # The partitions that it says it owns; None if it says nothing.
    owned: Assignment | None
    # The former static member whose place it takes.
    replaced: ConsumerMember | None = None


class Advance(NamedTuple):
    events: list[object]
    member: ConsumerMember


class _Subscribed(NamedTuple):
    """The group after the subscription of a member has changed."""

    epoch: int
    regexes: Regexes
    events: Sequence[object]


def advance(group: ConsumerRoster, arrival: Arrival, topics: TopicImage, assignors: Sequence[str], now: Now) -> Advance:
    before, details, owned, replaced = arrival
    stored = group.members.get(details.member_id)
    after = ConsumerMember(details, before.current)
    is_resubscribed = details is not before.details and after.subscription != before.subscription
    # A member that takes another member's place leaves its own, whose partitions others must get.
    is_changed = is_resubscribed or (stored is not None and replaced is not None)
    events: list[object] = []
    epoch, regexes = group.epoch, group.regexes
    if is_changed or group.topics_version != topics.version or epoch == 0:
        gone = [member.subscription for member in (stored, replaced) if member is not None]
        subscribers = resubscribe(group.subscribers, gone, [after.subscription])
        subscribed = _subscribe(group, subscribers, topics, now, is_changed=is_changed, regex=details.topic_regex)
        epoch, regexes = subscribed.epoch, subscribed.regexes
        events.extend(subscribed.events)
    if stored is None or details != stored.details:
        events.append(details)

    targets: Mapping[MemberId, Assignment] = group.targets
    if replaced is not None:
        # The successor is stored completely before its predecessor is forgotten, so a log that is cut has one of them.
        targets = {**targets, after.id: group.target_of(replaced.id)}
        events.append(TargetStored(group.group_id, after.id, targets[after.id]))
        events.extend(forget_member(group.group_id, replaced.id))

    assignment_epoch = group.assignment_epoch
    if epoch > assignment_epoch:
        members = {**group.members, after.id: after}
        if replaced is not None:
            del members[replaced.id]
        assignor = preferred_assignor(members.values(), assignors)
        computed = compute_targets(Assignable(members.values(), targets, regexes, topics), assignor)
        events.extend(target_events(group.group_id, epoch, targets, computed, now.wall_ms))
        targets, assignment_epoch = computed, epoch

    if is_resubscribed or not after.is_reconciled_to(assignment_epoch):
        own_ids = (None, after.id, replaced and replaced.id)

        def is_taken(topic_id: TopicId, partition: int) -> bool:
            return group.owner(topic_id, partition) not in own_ids

        goal = Goal(
            epoch=assignment_epoch,
            target=targets.get(after.id, NOTHING),
            subscribed=topic_ids_of(after.subscription, regexes, topics),
            is_resubscribed=is_resubscribed,
            owned=owned,
            is_taken=is_taken,
        )
        after = ConsumerMember(details, reconcile(after.current, goal))
    if stored is None or after.current != stored.current:
        events.append(after.current)
        # A member of the classic protocol has a deadline to join again instead.
        if after.current.pending_revocation and details.classic is None:
            events.append(rebalance_deadline(after, now))
    return Advance(events, after)


def remove(group: ConsumerRoster, members: Sequence[ConsumerMember], topics: TopicImage) -> list[object]:
    """The consequences of members being gone. New targets are computed at the next heartbeat of a remaining member."""
    subscribers = resubscribe(group.subscribers, (member.subscription for member in members), ())
    in_use = regexes_of(subscribers)
    hashed = group.metadata_hash
    if subscribers.keys() != group.subscribers.keys():
        hashed = metadata_hash(subscribed_names(subscribers, group.regexes), topics)
    events: list[object] = [ConsumerGroupStored(group.group_id, group.epoch + 1, hashed)]
    events.extend(RegexForgotten(group.group_id, regex) for regex in group.regexes if regex not in in_use)
    for member in members:
        events.extend(forget_member(group.group_id, member.id))
    return events


def is_target_due(group: ConsumerRoster, topics: TopicImage) -> bool:
    """Whether the targets are outdated, because members have left or topics have changed since."""
    names = subscribed_names(group.subscribers, group.regexes)
    return group.epoch > group.assignment_epoch or group.metadata_hash != metadata_hash(names, topics)


def forget_member(group_id: GroupId, member_id: MemberId) -> Sequence[object]:
    # Kafka can only read a log in which the member itself comes last.
    return (
        CurrentForgotten(group_id, member_id),
        TargetForgotten(group_id, member_id),
        MemberForgotten(group_id, member_id),
    )


def rebalance_deadline(member: ConsumerMember, now: Now) -> MemberDeadlineSet:
    due_ms = now.monotonic_ms + member.details.rebalance_timeout_ms
    return MemberDeadlineSet(member.details.group_id, REBALANCE, member.id, due_ms)


def _subscribe(
    group: ConsumerRoster,
    subscribers: Subscribers,
    topics: TopicImage,
    now: Now,
    *,
    is_changed: bool,
    regex: str | None,
) -> _Subscribed:
    """`regex` is the expression of the arriving member, which is refused if it is invalid."""
    is_stale = group.topics_version != topics.version
    in_use = regexes_of(subscribers)
    if len(in_use) > REGEXES_MAX and regex is not None and regex not in group.regexes:
        raise Refusal(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"the members of group '{group.group_id}' have {REGEXES_MAX} different regular expressions already",
        )
    regexes = {known: resolved for known, resolved in group.regexes.items() if known in in_use}
    events: list[object] = [RegexForgotten(group.group_id, known) for known in group.regexes if known not in in_use]
    for pattern in sorted(in_use):
        known = regexes.get(pattern)
        if known is not None and not is_stale:
            continue
        names = _resolve(pattern, topics, is_own=pattern == regex)
        if known is None or known.topics != names:
            regexes[pattern] = RegexResolved(group.group_id, pattern, names, topics.version, now.wall_ms)
            events.append(regexes[pattern])
            is_changed = True

    if is_stale or events or subscribers.keys() != group.subscribers.keys():
        hashed = metadata_hash(subscribed_names(subscribers, regexes), topics)
    else:
        hashed = group.metadata_hash
    epoch = group.epoch
    if is_changed or hashed != group.metadata_hash or epoch == 0:
        epoch += 1
        events.insert(0, ConsumerGroupStored(group.group_id, epoch, hashed))
    if is_stale:
        events.append(TopicsSeen(group.group_id, topics.version))
    return _Subscribed(epoch, regexes, events)


def _resolve(regex: str, topics: TopicImage, *, is_own: bool) -> frozenset[TopicName]:
    try:
        return resolve(regex, topics)
    except Refusal:
        if is_own:
            raise
        # Another member's expression was accepted before, by a broker that could read it. It must not fail this member.
        return frozenset()
