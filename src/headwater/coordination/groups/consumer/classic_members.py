"""Members of a consumer group that speak the classic protocol, because their clients are being upgraded one by one.

To them an epoch is a generation, and a new target is a rebalance: they are told in the answer to a heartbeat, join
again, and fetch their assignment. No member leads, because the coordinator assigns partitions, so no request waits.
"""

from collections.abc import Iterable, Mapping, Sequence

from headwater.coordination.decisions import Decision, Now
from headwater.coordination.groups.assignment import Assignment
from headwater.coordination.groups.classic.commands import Join, JoinResult, Leave, Sync, SyncResult
from headwater.coordination.groups.classic.events import SupportedProtocol
from headwater.coordination.groups.consumer.consequences import Arrival
from headwater.coordination.groups.consumer.events import (
    CLASSIC_JOIN,
    CLASSIC_SYNC,
    SESSION,
    ClassicDetails,
    MemberDeadlineCancelled,
    MemberDeadlineSet,
    MemberState,
    MemberStored,
)
from headwater.coordination.groups.consumer.heartbeat import existing_member
from headwater.coordination.groups.consumer.member import UNCHANGED_TIMEOUT, ConsumerMember, new_member
from headwater.coordination.groups.consumer.roster import ConsumerRoster
from headwater.coordination.groups.terms import CONSUMER_PROTOCOL_TYPE, NO_MEMBER, TopicImage
from headwater.errors import ErrorCode, ProtocolError, Refusal
from headwater.ids import MemberId, TopicName
from headwater.protocol.consumer_protocol import Subscription, read_subscription, read_version, write_assignment

# -- JoinGroup


def check_protocols(group: ConsumerRoster, join: Join) -> None:
    """Refuses a join without a protocol that all classic members support: the group may become a classic one again."""
    if join.protocol_type != CONSUMER_PROTOCOL_TYPE or not common_protocols(group.members.values(), join.protocols):
        raise Refusal(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"group '{group.group_id}' needs the protocol type '{CONSUMER_PROTOCOL_TYPE}' and a protocol (assignor) "
            "that all of its classic members know",
        )


def common_protocols(members: Iterable[ConsumerMember], protocols: Iterable[SupportedProtocol]) -> Sequence[str]:
    """The names in `protocols` that every classic member supports, in the same order."""
    names = [protocol.name for protocol in protocols]
    for member in members:
        if member.details.classic is not None:
            known = {protocol.name for protocol in member.details.classic.protocols}
            names = [name for name in names if name in known]
    return names


def arrive_classic(group: ConsumerRoster, join: Join, topics: TopicImage) -> Arrival:
    """The member that joins. Refuses a member whose place another has taken."""
    replaced: ConsumerMember | None = None
    if join.instance_id is None:
        member_id = join.member_id or join.new_member_id
        before = group.members.get(member_id) or new_member(group.group_id, member_id)
    elif join.member_id != NO_MEMBER:
        before = existing_member(group, join.member_id, join.instance_id)
    else:
        replaced = group.static_member(join.instance_id)
        if replaced is None:
            before = new_member(group.group_id, join.new_member_id)
        else:
            before = replaced.renamed(join.new_member_id)
    subscription = _subscription(join)
    details = _details(before.details, join, subscription)
    return Arrival(before, details, partitions_by_id(subscription.owned_partitions, topics), replaced)


def joined_result(member: ConsumerMember, generation: int, protocol: str) -> JoinResult:
    return JoinResult(member.id, ErrorCode.NONE, generation, CONSUMER_PROTOCOL_TYPE, protocol)


def joined_deadlines(member: ConsumerMember, now: Now) -> Sequence[object]:
    """A member that has joined must fetch its assignment in time."""
    sync_due_ms = now.monotonic_ms + member.details.rebalance_timeout_ms
    return (
        MemberDeadlineCancelled(member.details.group_id, CLASSIC_JOIN, member.id),
        _session(member, now),
        MemberDeadlineSet(member.details.group_id, CLASSIC_SYNC, member.id, sync_due_ms),
    )


def _subscription(join: Join) -> Subscription:
    try:
        return read_subscription(join.protocols[0].metadata)
    except ProtocolError as error:
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the subscription cannot be read: {error}") from error


def _details(details: MemberStored, join: Join, subscription: Subscription) -> MemberStored:
    timeout_ms = join.rebalance_timeout_ms
    return details._replace(
        instance_id=join.instance_id if join.instance_id is not None else details.instance_id,
        rack_id=subscription.rack_id if subscription.rack_id is not None else details.rack_id,
        client_id=join.client_id,
        client_host=join.client_host,
        topic_names=frozenset(subscription.topics),
        topic_regex=None,
        rebalance_timeout_ms=timeout_ms if timeout_ms != UNCHANGED_TIMEOUT else join.session_timeout_ms,
        classic=ClassicDetails(join.session_timeout_ms, tuple(join.protocols)),
    )


# -- SyncGroup, Heartbeat, LeaveGroup


def decide_sync(group: ConsumerRoster, sync: Sync, topics: TopicImage, now: Now) -> Decision[SyncResult]:
    member = _classic_member(group, sync.member_id, sync.instance_id, sync.generation)
    protocol = _classic_details(member).protocols[0]
    if sync.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or sync.protocol not in (None, protocol.name):
        raise Refusal(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"member '{member.id}' joined with the protocol '{protocol.name}' of type '{CONSUMER_PROTOCOL_TYPE}'",
        )
    # A member that has partitions to give up has joined already, and must first finish that.
    if member.current.epoch < group.epoch and member.current.state is not MemberState.UNREVOKED_PARTITIONS:
        return Decision(_join_deadline(group, member, now), SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
    assignment = assignment_bytes(member.current.assigned, protocol.metadata, topics)
    events = (
        MemberDeadlineCancelled(group.group_id, CLASSIC_SYNC, member.id),
        _session(member, now),
    )
    return Decision(events, SyncResult(ErrorCode.NONE, sync.protocol_type, sync.protocol, assignment))


def decide_heartbeat(
    group: ConsumerRoster, member_id: MemberId, instance_id: str | None, generation: int, now: Now
) -> Decision[ErrorCode]:
    member = _classic_member(group, member_id, instance_id, generation)
    events: list[object] = [_session(member, now)]
    if not _must_join_again(group, member):
        return Decision(events, ErrorCode.NONE)
    events.extend(_join_deadline(group, member, now))
    return Decision(events, ErrorCode.REBALANCE_IN_PROGRESS)


def leaving_member(group: ConsumerRoster, leaving: Leave) -> ConsumerMember:
    """The member that leaves. An administrator may name a static member by its instance id alone."""
    if leaving.instance_id is not None and leaving.member_id == NO_MEMBER:
        member_id = group.static_members.get(leaving.instance_id, NO_MEMBER)
        return existing_member(group, member_id, leaving.instance_id)
    return existing_member(group, leaving.member_id, leaving.instance_id)


def _must_join_again(group: ConsumerRoster, member: ConsumerMember) -> bool:
    current = member.current
    if current.epoch < group.epoch or current.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    if current.state is not MemberState.UNRELEASED_PARTITIONS:
        return False
    # The partitions that it waits for may be free by now, and it gets them by joining.
    return not any(
        group.owner(topic_id, partition) not in (None, member.id)
        for topic_id, partitions in group.target_of(member.id).items()
        for partition in partitions
    )


def _classic_member(
    group: ConsumerRoster, member_id: MemberId, instance_id: str | None, generation: int
) -> ConsumerMember:
    member = existing_member(group, member_id, instance_id)
    if member.details.classic is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"member '{member.id}' does not speak the classic protocol")
    if generation != member.current.epoch:
        raise Refusal(
            ErrorCode.ILLEGAL_GENERATION,
            f"member '{member.id}' is at generation {member.current.epoch}, not {generation}: join again",
        )
    return member


def _classic_details(member: ConsumerMember) -> ClassicDetails:
    classic = member.details.classic
    assert classic is not None
    return classic


def _session(member: ConsumerMember, now: Now) -> MemberDeadlineSet:
    due_ms = now.monotonic_ms + _classic_details(member).session_timeout_ms
    return MemberDeadlineSet(member.details.group_id, SESSION, member.id, due_ms)


def _join_deadline(group: ConsumerRoster, member: ConsumerMember, now: Now) -> Sequence[object]:
    """Runs from when the member is first told to join again; telling it again does not extend it."""
    if group.has_deadline(CLASSIC_JOIN, member.id):
        return ()
    due_ms = now.monotonic_ms + member.details.rebalance_timeout_ms
    return (MemberDeadlineSet(group.group_id, CLASSIC_JOIN, member.id, due_ms),)


# -- partitions as the classic protocol names them


def partitions_by_id(by_name: Mapping[TopicName, Iterable[int]], topics: TopicImage) -> Assignment:
    return {
        topics.by_name[name].id: numbers
        for name, partitions in by_name.items()
        if name in topics.by_name and (numbers := frozenset(partitions))
    }


def assignment_bytes(assignment: Assignment, metadata: bytes, topics: TopicImage) -> bytes:
    """Encoded in the version of the member's own metadata."""
    by_name = {
        topics.by_id[topic_id].name: partitions
        for topic_id, partitions in assignment.items()
        if topic_id in topics.by_id
    }
    try:
        version = read_version(metadata)
    except ProtocolError:
        # Only the metadata of the member's first protocol were validated when it joined.
        version = 0
    return write_assignment(by_name, version)
