"""JoinGroup: whether a client may join a classic group, under which member id, and whether this needs a rebalance."""

from typing import TypeAlias

from headwater.config.group_defaults import GroupDefaults
from headwater.coordination.decisions import Decision, Ticket, Waiting
from headwater.coordination.groups.classic.commands import Join, JoinResult
from headwater.coordination.groups.classic.draft import Draft, current_generation
from headwater.coordination.groups.classic.events import ClassicMember, MemberAwaited, SupportedProtocol
from headwater.coordination.groups.classic.subscriptions import topics_of
from headwater.coordination.groups.terms import CONSUMER_PROTOCOL_TYPE, NO_MEMBER, GroupState
from headwater.errors import ErrorCode, Refusal
from headwater.ids import MemberId

# A new member does not know its id until its JoinGroup is answered, so it cannot send heartbeats. If it loses its
# connection it comes back under another id, and this timeout bounds how many such ghost members can pile up.
NEWCOMER_TIMEOUT_MS = 300_000
# Bounds the member ids of a group that were given out and not used: a client that only asks for ids must not fill the
# memory.
AWAITED_MAX = 10_000

# A consumer brings one protocol for each of its assignors, which are few.
PROTOCOLS_MAX = 100

JoinDecision: TypeAlias = Decision[JoinResult | Waiting]


def check_join(join: Join, config: GroupDefaults) -> None:
    """Refuses what can be refused without looking at the group."""
    shortest_ms, longest_ms = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
    if not shortest_ms <= join.session_timeout_ms <= longest_ms:
        raise Refusal(
            ErrorCode.INVALID_SESSION_TIMEOUT,
            f"the session timeout of {join.session_timeout_ms} ms is not between {shortest_ms} "
            f"(group.min.session.timeout.ms) and {longest_ms} (group.max.session.timeout.ms)",
        )
    if join.instance_id == "":
        raise Refusal(ErrorCode.INVALID_REQUEST, "a group.instance.id must not be empty")
    if len(join.protocols) > PROTOCOLS_MAX:
        raise Refusal(
            ErrorCode.INVALID_REQUEST, f"a member may bring {PROTOCOLS_MAX} protocols, not {len(join.protocols)}"
        )
    bytes_total = sum(len(protocol.name) + len(protocol.metadata) for protocol in join.protocols)
    check_metadata_bytes(bytes_total, "the protocols of a member", config)


def check_metadata_bytes(bytes_total: int, what: str, config: GroupDefaults) -> None:
    if bytes_total > config.headwater_group_metadata_max_bytes:
        raise Refusal(
            ErrorCode.INVALID_REQUEST,
            f"{what} may have {config.headwater_group_metadata_max_bytes} bytes and have {bytes_total} "
            "(headwater.group.metadata.max.bytes)",
        )


def decide_join(draft: Draft, join: Join, ticket: Ticket) -> JoinDecision:
    roster = draft.roster
    known_id = join.member_id
    if known_id == NO_MEMBER and join.instance_id is not None:
        known_id = roster.id_of_instance.get(join.instance_id, NO_MEMBER)
    if not _has_room(draft, known_id):
        draft.remove_all([known_id] if known_id else [])
        return draft.decision(JoinResult(NO_MEMBER, ErrorCode.GROUP_MAX_SIZE_REACHED))
    roster.check_protocols(join.protocol_type, join.protocols)
    if join.member_id == NO_MEMBER:
        return _join_without_id(draft, join, known_id, ticket)
    if join.member_id in roster.awaited and join.instance_id is None:
        return _wait(draft, join, join.member_id, ticket)
    return _join_again(draft, join, ticket)


def _has_room(draft: Draft, known_id: MemberId) -> bool:
    roster, size_max = draft.roster, draft.config.group_max_size
    match roster.state:
        case GroupState.PREPARING_REBALANCE:
            # The first to join are in. The number of members does not matter, because it may exceed a lowered limit.
            return known_id in roster.joining or len(roster.joining) < size_max
        case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
            return known_id in roster.members or len(roster.members) < size_max
        case _:
            return True


def _join_without_id(draft: Draft, join: Join, known_id: MemberId, ticket: Ticket) -> JoinDecision:
    if known_id != NO_MEMBER:
        return _replace(draft, join, known_id, ticket)
    if join.instance_id is None and join.is_member_id_required:
        if len(draft.roster.awaited) >= AWAITED_MAX:
            raise Refusal(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                f"group '{draft.roster.group_id}' still waits for {AWAITED_MAX} clients that were given a member id",
            )
        until_ms = draft.now.monotonic_ms + join.session_timeout_ms
        draft.record(MemberAwaited(draft.roster.group_id, join.new_member_id, until_ms))
        return draft.decision(JoinResult(join.new_member_id, ErrorCode.MEMBER_ID_REQUIRED))
    return _wait(draft, join, join.new_member_id, ticket)


def _join_again(draft: Draft, join: Join, ticket: Ticket) -> JoinDecision:
    roster = draft.roster
    before = roster.member(join.member_id, join.instance_id)
    has_changed = before.protocols != _distinct(join)
    match roster.state:
        case GroupState.PREPARING_REBALANCE:
            needs_rebalance = True
        case GroupState.STABLE:
            # The leader may have reasons for a rebalance, such as new partitions, that do not show in its metadata.
            needs_rebalance = has_changed or before.id == roster.leader
        case _:
            # An unchanged member that joins again may not have received its first answer.
            needs_rebalance = has_changed
    if needs_rebalance:
        return _wait(draft, join, before.id, ticket)
    return draft.decision(current_generation(roster, before.id))


def _replace(draft: Draft, join: Join, old_id: MemberId, ticket: Ticket) -> JoinDecision:
    """A static member has come back: it takes its former place, and another client with its instance id is fenced."""
    roster = draft.roster
    old, old_leader = roster.members[old_id], roster.leader
    member = _member(join, join.new_member_id, join.instance_id, old.assignment)
    draft.replace(old_id, member)
    if roster.state is not GroupState.STABLE or _needs_rebalance(draft, old, member):
        return _wait(draft, join, member.id, ticket)
    draft.store_generation()
    if join.may_skip_assignment:
        result = current_generation(roster, member.id, skip_assignment=True)
    else:
        # An older client would compute an assignment if it learned that it leads. So it is told the leader from before.
        result = current_generation(roster, member.id)._replace(leader=old_leader or NO_MEMBER, members=())
    return draft.decision(result)


def _needs_rebalance(draft: Draft, old: ClassicMember, member: ClassicMember) -> bool:
    """A restart alone needs no rebalance. Then only user data differs, in which assignors put what a member owned."""
    roster = draft.roster
    if roster.selected_protocol() != roster.protocol:
        return True
    return roster.protocol_type == CONSUMER_PROTOCOL_TYPE and (
        topics_of([old.metadata(roster.protocol)]) != topics_of([member.metadata(roster.protocol)])
    )


def _wait(draft: Draft, join: Join, member_id: MemberId, ticket: Ticket) -> JoinDecision:
    before = draft.roster.members.get(member_id)
    instance_id = join.instance_id if before is None else before.instance_id
    member = _member(join, member_id, instance_id, b"" if before is None else before.assignment)
    draft.join(member, join.protocol_type, ticket, draft.now.monotonic_ms + NEWCOMER_TIMEOUT_MS)
    draft.rebalance()
    return draft.join_decision(ticket)


def _member(join: Join, member_id: MemberId, instance_id: str | None, assignment: bytes) -> ClassicMember:
    return ClassicMember(
        member_id,
        instance_id,
        join.client_id,
        join.client_host,
        join.rebalance_timeout_ms,
        join.session_timeout_ms,
        _distinct(join),
        assignment,
    )


def _distinct(join: Join) -> tuple[SupportedProtocol, ...]:
    """Each protocol once, with the metadata named first."""
    by_name: dict[str, SupportedProtocol] = {}
    for protocol in join.protocols:
        by_name.setdefault(protocol.name, protocol)
    return tuple(by_name.values())
