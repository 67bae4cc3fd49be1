"""A classic group becomes a consumer group when the first member of the consumer protocol joins it.

The way back is in `downgrade`: it happens when members leave a consumer group.
"""

from collections.abc import Iterator

from headwater.config.group_defaults import GroupDefaults
from headwater.coordination.decisions import Decision, Now
from headwater.coordination.groups.assignment import NOTHING, Assignment, difference, union
from headwater.coordination.groups.classic.events import ClassicMember
from headwater.coordination.groups.classic.group import ClassicGroup
from headwater.coordination.groups.consumer.classic_members import partitions_by_id
from headwater.coordination.groups.consumer.commands import MemberAnswer, MemberHeartbeat
from headwater.coordination.groups.consumer.events import (
    ClassicDetails,
    ConsumerGroupStored,
    CurrentStored,
    MemberState,
    MemberStored,
    TargetEpochStored,
    TargetStored,
)
from headwater.coordination.groups.consumer.group import ConsumerGroup
from headwater.coordination.groups.consumer.subscriptions import NO_METADATA_HASH
from headwater.coordination.groups.group import Group
from headwater.coordination.groups.terms import CONSUMER_PROTOCOL_TYPE, GroupState, TopicImage
from headwater.errors import ErrorCode, ProtocolError, Refusal
from headwater.ids import MemberId
from headwater.protocol.consumer_protocol import read_assignment, read_subscription

POLICIES = ("upgrade", "bidirectional")


def decide_takeover(
    former: Group, fresh: ConsumerGroup, heartbeat: MemberHeartbeat, now: Now
) -> Decision[MemberAnswer]:
    """Decides a heartbeat by which a member joins a group of another kind. The group that comes about is tried on
    `fresh`, which the caller then throws away: the real one begins when the events are applied."""
    if isinstance(former, ClassicGroup):
        return decide_upgrade(former, fresh, heartbeat, now)
    raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"group '{fresh.group_id}' is not a consumer group")


def decide_upgrade(
    classic: ClassicGroup, fresh: ConsumerGroup, heartbeat: MemberHeartbeat, now: Now
) -> Decision[MemberAnswer]:
    if classic.state is GroupState.EMPTY:
        # No member is left that the change could concern.
        joined = fresh.decide_member_heartbeat(heartbeat, now)
        return joined._replace(events=[*classic.decide_delete(), *joined.events])
    check_upgrade(classic, fresh.config)
    converted = list(_convert(classic, fresh.topics, now))
    for event in converted:
        fresh.apply(event)
    joined = fresh.decide_member_heartbeat(heartbeat, now)
    # Members that wait in the classic group are told that it rebalances, and join again.
    dissolved = classic.decide_dissolve(ErrorCode.REBALANCE_IN_PROGRESS, now)
    events = [*dissolved.events, *converted, *fresh.decide_loaded(now), *joined.events]
    return Decision(events, joined.result, dissolved.answers)


def check_upgrade(classic: ClassicGroup, config: GroupDefaults) -> None:
    if config.group_consumer_migration_policy not in POLICIES:
        problem = "group.consumer.migration.policy does not allow it to become a consumer group"
    elif classic.protocol_type != CONSUMER_PROTOCOL_TYPE:
        problem = f"its members are no consumers but of type '{classic.protocol_type}'"
    elif len(classic.roster.members) > config.group_consumer_max_size:
        problem = "it has more members than a consumer group may have (group.consumer.max.size)"
    else:
        return
    raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"group '{classic.group_id}' is a classic group, and {problem}")


def _convert(classic: ClassicGroup, topics: TopicImage, now: Now) -> Iterator[object]:
    """All members are stable with their assignments, in an epoch that equals their generation."""
    group_id, roster = classic.group_id, classic.roster
    epoch = roster.generation
    assigned: dict[MemberId, Assignment] = {}
    taken: Assignment = NOTHING
    yield ConsumerGroupStored(group_id, epoch, NO_METADATA_HASH)
    for member in roster.members.values():
        try:
            # A member that joined after the last generation may not support its protocol.
            subscription = read_subscription(member.metadata(roster.protocol) or member.protocols[0].metadata)
            assignment = _assignment(member, topics)
        except ProtocolError as error:
            raise Refusal(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"classic group '{group_id}' cannot become a consumer group: what member '{member.id}' has told it "
                f"cannot be read: {error}",
            ) from error
        # The leader of a classic group may assign a partition to two members; in a consumer group it has one owner.
        assigned[member.id] = difference(assignment, taken)
        taken = union(taken, assignment)
        yield MemberStored(
            group_id=group_id,
            member_id=member.id,
            instance_id=member.instance_id,
            rack_id=subscription.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            topic_names=frozenset(subscription.topics),
            topic_regex=None,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            assignor=None,
            classic=ClassicDetails(member.session_timeout_ms, member.protocols),
        )
    for member_id, partitions in assigned.items():
        yield TargetStored(group_id, member_id, partitions)
    yield TargetEpochStored(group_id, epoch, now.wall_ms)
    for member_id, partitions in assigned.items():
        yield CurrentStored(group_id, member_id, epoch, epoch, MemberState.STABLE, partitions)


def _assignment(member: ClassicMember, topics: TopicImage) -> Assignment:
    # Empty bytes if the member has no assignment yet.
    return partitions_by_id(read_assignment(member.assignment).partitions, topics) if member.assignment else NOTHING
