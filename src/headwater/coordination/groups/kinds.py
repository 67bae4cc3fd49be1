"""The kinds of groups. Another kind is a folder that implements `Group`, and an entry here.

Its records go into `broker/groups/formats`, its events into the union of `groups/events.py`.
"""

from typing import Final, get_args

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
from headwater.coordination.groups.group import GroupContext, GroupKind
from headwater.coordination.groups.terms import GroupType
from headwater.ids import GroupId


def _new_classic(group_id: GroupId, context: GroupContext) -> ClassicGroup:
    return ClassicGroup(group_id, context.config, context.deadlines)


def _new_consumer(group_id: GroupId, context: GroupContext) -> ConsumerGroup:
    return ConsumerGroup(group_id, *context)


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

KINDS: Final = (CLASSIC, CONSUMER)
