"""ConsumerGroupHeartbeat: validates the request, and finds its sender unless that is fenced or unknown."""

from headwater.config.group_defaults import GroupDefaults
from headwater.coordination.groups.assignment import Assignment, contains
from headwater.coordination.groups.consumer.commands import JOIN_EPOCH, LEAVE_STATIC_EPOCH, MemberHeartbeat
from headwater.coordination.groups.consumer.consequences import Arrival
from headwater.coordination.groups.consumer.member import UNCHANGED_TIMEOUT, ConsumerMember, details_after, new_member
from headwater.coordination.groups.consumer.roster import ConsumerRoster
from headwater.errors import ErrorCode, Refusal
from headwater.ids import MemberId


def check_heartbeat(heartbeat: MemberHeartbeat, config: GroupDefaults) -> None:
    """Refuses requests that are invalid for every group."""
    if not heartbeat.member_id and (heartbeat.epoch != JOIN_EPOCH or not heartbeat.new_member_id):
        raise _invalid("the member id must not be empty")
    if heartbeat.instance_id == "":
        raise _invalid("the instance id must not be empty")
    if heartbeat.rack_id == "":
        raise _invalid("the rack id must not be empty")
    if heartbeat.epoch == JOIN_EPOCH:
        if heartbeat.rebalance_timeout_ms == UNCHANGED_TIMEOUT:
            raise _invalid("a member that joins must give its rebalance timeout")
        if heartbeat.owned is None or heartbeat.owned:
            raise _invalid("a member that joins must say that it owns no partitions")
        if heartbeat.topic_names is None and heartbeat.topic_regex is None:
            raise _invalid("a member that joins must subscribe to topic names or to a regular expression")
    elif heartbeat.epoch == LEAVE_STATIC_EPOCH:
        if heartbeat.instance_id is None:
            raise _invalid("only a static member can leave for a while: the instance id is missing")
    elif heartbeat.epoch < LEAVE_STATIC_EPOCH:
        raise _invalid(f"member epoch {heartbeat.epoch} has no meaning")
    # The whole subscription is stored with every change of the member.
    size = len(heartbeat.topic_regex or "") + sum(map(len, heartbeat.topic_names or ()))
    if size > config.headwater_group_metadata_max_bytes:
        raise _invalid(
            f"the subscription has {size} bytes, the limit is {config.headwater_group_metadata_max_bytes} "
            "(headwater.group.metadata.max.bytes)"
        )
    if heartbeat.assignor is not None and heartbeat.assignor not in config.group_consumer_assignors:
        raise Refusal(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"assignor '{heartbeat.assignor}' is not supported; group.consumer.assignors has "
            f"{', '.join(config.group_consumer_assignors)}",
        )


def arrive(group: ConsumerRoster, heartbeat: MemberHeartbeat) -> Arrival:
    """The member that sent the heartbeat. Refuses a member that is fenced or not known."""
    member_id = heartbeat.member_id or heartbeat.new_member_id
    replaced: ConsumerMember | None = None
    if heartbeat.epoch != JOIN_EPOCH:
        before = existing_member(group, member_id, heartbeat.instance_id)
        _check_epoch(before, heartbeat.epoch, heartbeat.owned)
    elif heartbeat.instance_id is None or heartbeat.instance_id not in group.static_members:
        before = group.members.get(member_id) or new_member(group.group_id, member_id)
    else:
        before, replaced = _replace(group, member_id, heartbeat.instance_id)
    return Arrival(before, details_after(before.details, heartbeat), heartbeat.owned, replaced)


def existing_member(group: ConsumerRoster, member_id: MemberId, instance_id: str | None) -> ConsumerMember:
    """The member with that id. A static member is looked up by its instance id, which another may have taken over."""
    if instance_id is None:
        member = group.members.get(member_id)
        if member is None:
            raise Refusal(
                ErrorCode.UNKNOWN_MEMBER_ID, f"'{member_id}' is not a member of group '{group.group_id}': join it first"
            )
        return member
    member = group.static_member(instance_id)
    if member is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"instance '{instance_id}' is not known in group '{group.group_id}'")
    if member.id != member_id:
        raise Refusal(
            ErrorCode.FENCED_INSTANCE_ID,
            f"instance '{instance_id}' is now member '{member.id}': each client needs a group.instance.id of its own",
        )
    return member


def is_full(heartbeat: MemberHeartbeat) -> bool:
    """Whether the heartbeat has the member's whole state. Then the answer has the whole assignment."""
    return heartbeat.epoch == JOIN_EPOCH or (
        heartbeat.owned is not None
        and heartbeat.rebalance_timeout_ms != UNCHANGED_TIMEOUT
        and (heartbeat.topic_names is not None or heartbeat.topic_regex is not None)
    )


def _replace(
    group: ConsumerRoster, member_id: MemberId, instance_id: str
) -> tuple[ConsumerMember, ConsumerMember | None]:
    predecessor = group.members[group.static_members[instance_id]]
    # A member of the classic protocol cannot announce that it leaves for a while, so it is always replaced.
    if predecessor.details.classic is None and not predecessor.is_away:
        raise Refusal(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"instance '{instance_id}' is held by member '{predecessor.id}' until that leaves or its session ends",
        )
    return predecessor.renamed(member_id), predecessor if predecessor.id != member_id else None


def _check_epoch(member: ConsumerMember, epoch: int, owned: Assignment | None) -> None:
    current = member.current
    if epoch == current.epoch:
        return
    # The answer with the new epoch may have been lost. That is safe if the member owns only what it is assigned.
    if (
        epoch == current.previous_epoch
        and epoch < current.epoch
        and owned is not None
        and contains(current.assigned, owned)
    ):
        return
    raise Refusal(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"member epoch {epoch} is not the one of '{member.id}', which is {current.epoch}: it must abandon all its "
        "partitions and join again",
    )


def _invalid(text: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, text)
