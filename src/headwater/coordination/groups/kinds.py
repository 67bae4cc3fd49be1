"""The kinds of groups. Another kind is a folder that implements `Group`, and an entry here.

Its records go into `broker/groups/formats`, its events into the union of `groups/events.py`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, get_args

from headwater.coordination.groups.classic.events import ClassicGroupForgotten, ClassicRosterEvent
from headwater.coordination.groups.classic.group import ClassicGroup
from headwater.coordination.groups.consumer.events import (
    ConsumerGroupForgotten,
    ConsumerRosterEvent,
    CurrentForgotten,
    MemberForgotten,
    RegexForgotten,
    TargetEpochForgotten,
    TargetForgotten,
)
from headwater.coordination.groups.consumer.group import ConsumerGroup
from headwater.coordination.groups.group import Group, GroupContext
from headwater.coordination.groups.share.events import (
    ShareCurrentForgotten,
    ShareGroupForgotten,
    ShareMemberForgotten,
    ShareRosterEvent,
    ShareTargetEpochForgotten,
    ShareTargetForgotten,
)
from headwater.coordination.groups.share.group import ShareGroup
from headwater.coordination.groups.terms import GroupType
from headwater.ids import GroupId


class GroupKind(NamedTuple):
    """A kind of group: how one begins, and which events are for it. Each event has a `group_id`."""

    group_type: GroupType
    new: Callable[[GroupId, GroupContext], Group]
    # All of them. A group that is not there begins with the first event that is neither a removal nor the end.
    events: Sequence[type[Any]]
    # Events that take away a part of a group. Compaction may leave nothing else of a group that has ended.
    removals: Sequence[type[Any]]
    # The last event of a group.
    end: type[Any]


class EventRule(NamedTuple):
    """What an event means for the group that it names."""

    kind: GroupKind
    can_begin: bool
    is_end: bool


def event_rules(kinds: Iterable[GroupKind]) -> Mapping[type[Any], EventRule]:
    rules: dict[type[Any], EventRule] = {}
    for kind in kinds:
        for event in kind.events:
            assert event not in rules, f"{event.__name__} is for two kinds of groups"
            is_end = event is kind.end
            rules[event] = EventRule(kind, not is_end and event not in kind.removals, is_end)
    return rules


def _new_classic(group_id: GroupId, context: GroupContext) -> ClassicGroup:
    return ClassicGroup(group_id, context.config, context.deadlines)


def _new_consumer(group_id: GroupId, context: GroupContext) -> ConsumerGroup:
    return ConsumerGroup(group_id, *context)


def _new_share(group_id: GroupId, context: GroupContext) -> ShareGroup:
    return ShareGroup(group_id, *context)


CLASSIC: Final = GroupKind(
    GroupType.CLASSIC,
    _new_classic,
    events=get_args(ClassicRosterEvent),
    removals=(),
    end=ClassicGroupForgotten,
)

CONSUMER: Final = GroupKind(
    GroupType.CONSUMER,
    _new_consumer,
    events=get_args(ConsumerRosterEvent),
    removals=(MemberForgotten, TargetEpochForgotten, TargetForgotten, CurrentForgotten, RegexForgotten),
    end=ConsumerGroupForgotten,
)

SHARE: Final = GroupKind(
    GroupType.SHARE,
    _new_share,
    events=get_args(ShareRosterEvent),
    removals=(ShareMemberForgotten, ShareTargetEpochForgotten, ShareTargetForgotten, ShareCurrentForgotten),
    end=ShareGroupForgotten,
)

KINDS: Final = (CLASSIC, CONSUMER, SHARE)
