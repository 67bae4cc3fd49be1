"""A consumer group becomes a classic group again when its last member of the consumer protocol is gone."""

from collections import Counter
from collections.abc import Sequence

from headwater.config.group_defaults import GroupDefaults
from headwater.coordination.deadlines import Deadlines
from headwater.coordination.decisions import Decision, Now, Ticket, Waiting
from headwater.coordination.groups.assignment import Assignment
from headwater.coordination.groups.classic.commands import Join, JoinResult
from headwater.coordination.groups.classic.events import ClassicMember, GenerationStored
from headwater.coordination.groups.classic.group import ClassicGroup
from headwater.coordination.groups.consumer.classic_members import assignment_bytes, common_protocols
from headwater.coordination.groups.consumer.consequences import forget_member
from headwater.coordination.groups.consumer.events import (
    ConsumerGroupForgotten,
    ConsumerGroupStored,
    RegexForgotten,
    TargetEpochForgotten,
    TargetForgotten,
)
from headwater.coordination.groups.consumer.member import ConsumerMember
from headwater.coordination.groups.consumer.roster import ConsumerRoster
from headwater.coordination.groups.terms import CONSUMER_PROTOCOL_TYPE, TopicImage

POLICIES = ("downgrade", "bidirectional")


def may_downgrade(remaining: Sequence[ConsumerMember], config: GroupDefaults) -> bool:
    """Whether the remaining members of a consumer group continue as a classic group."""
    return (
        0 < len(remaining) <= config.group_max_size
        and config.group_consumer_migration_policy in POLICIES
        and all(member.details.classic is not None for member in remaining)
    )


def downgrade(
    group: ConsumerRoster,
    remaining: Sequence[tuple[ConsumerMember, Assignment]],
    topics: TopicImage,
    config: GroupDefaults,
    now: Now,
    *,
    is_rebalance_due: bool,
) -> list[object]:
    """`remaining` are members with their targets, which become the assignments of the new generation."""
    protocol = selected_protocol([member for member, _ in remaining])
    generation = GenerationStored(
        group_id=group.group_id,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        generation=group.epoch,
        protocol=protocol,
        # Without a leader, every load of the group begins with the rebalance that is due.
        leader=None if is_rebalance_due else remaining[0][0].id,
        state_timestamp_ms=now.wall_ms,
        members=[_classic(member, target, protocol, topics).stored(protocol) for member, target in remaining],
    )
    # The classic group decides itself what follows, as if it had just been loaded.
    classic = ClassicGroup(group.group_id, config, Deadlines())
    classic.apply(generation)
    # A log that was cut inside these events has a consumer group without some of its members or their targets. The
    # higher epoch, which comes first, makes the remaining members get new targets.
    outdated = ConsumerGroupStored(group.group_id, group.epoch + 1, group.metadata_hash)
    return [outdated, *forget_group(group), generation, *classic.decide_loaded(now)]


def decide_succession(
    group: ConsumerRoster, join: Join, config: GroupDefaults, ticket: Ticket, now: Now
) -> Decision[JoinResult | Waiting]:
    """A classic client is the first to join an empty consumer group, and so the group becomes a classic one."""
    joined = ClassicGroup(group.group_id, config, Deadlines()).decide_join(join, ticket, now)
    return joined._replace(events=[*forget_group(group), *joined.events])


def forget_group(group: ConsumerRoster) -> list[object]:
    """Tombstones for everything that the group has in the log. The group itself comes last, as Kafka requires."""
    events: list[object] = []
    for member_id in group.members:
        events.extend(forget_member(group.group_id, member_id))
    events.extend(TargetForgotten(group.group_id, id_) for id_ in group.targets if id_ not in group.members)
    events.extend(RegexForgotten(group.group_id, regex) for regex in group.regexes)
    return [*events, TargetEpochForgotten(group.group_id), ConsumerGroupForgotten(group.group_id)]


def selected_protocol(members: Sequence[ConsumerMember]) -> str:
    """Of the protocols that all members support, the one with most votes. Joins without a common one are refused."""
    votes = Counter(
        common_protocols(members, member.details.classic.protocols)[0]
        for member in members
        if member.details.classic is not None
    )
    return votes.most_common(1)[0][0]


def _classic(member: ConsumerMember, target: Assignment, protocol: str, topics: TopicImage) -> ClassicMember:
    details = member.details
    assert details.classic is not None
    classic = ClassicMember(
        details.member_id,
        details.instance_id,
        details.client_id,
        details.client_host,
        details.rebalance_timeout_ms,
        details.classic.session_timeout_ms,
        details.classic.protocols,
    )
    return classic._replace(assignment=assignment_bytes(target, classic.metadata(protocol), topics))
