"""JoinGroup (key 11), v0-9: joins a classic group; answered when the rebalance that it starts or joins has all its
members.

v1 adds the rebalance timeout, v4 gives a new member its id first (MEMBER_ID_REQUIRED), v5 adds static members, v6 is
flexible, v7 names the protocol type and allows no protocol, v8 adds the reason, v9 lets the leader skip the assignment.
"""

from uuid import uuid4

from headwater.broker.pending import Pending
from headwater.coordination.groups.classic.commands import NO_GENERATION, Join, JoinResult
from headwater.coordination.groups.classic.events import SupportedProtocol
from headwater.errors import HeadwaterError
from headwater.ids import GroupId, MemberId
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.groups.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from headwater.security.acl import Operation, group

REQUEST = JoinGroupRequest

# How much of a client's name goes into its member ids: with a longer name, an id might not fit into a record.
NAME_LENGTH_MAX = 255
FIRST_VERSION_WITH_REBALANCE_TIMEOUT = 1
FIRST_VERSION_WITH_REQUIRED_MEMBER_ID = 4
FIRST_VERSION_WITH_NULL_PROTOCOL = 7
FIRST_VERSION_WITH_SKIPPED_ASSIGNMENT = 9


def handle(request: JoinGroupRequest, context: Context) -> JoinGroupResponse | Pending[JoinGroupResponse]:
    version = context.api_version
    denial = context.guard.denial(Operation.READ, group(request.group_id))
    if denial is not None:
        return _response(denial, request.member_id, version)
    instance_id = request.group_instance_id
    client_id = context.client_id or ""
    name = client_id if instance_id is None else instance_id
    has_timeout = version >= FIRST_VERSION_WITH_REBALANCE_TIMEOUT
    join = Join(
        member_id=MemberId(request.member_id),
        new_member_id=MemberId(f"{name[:NAME_LENGTH_MAX]}-{uuid4()}"),
        instance_id=instance_id,
        client_id=client_id,
        client_host=context.client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms if has_timeout else request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple(SupportedProtocol(protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
        # A static member is known by its instance id: when it joins again, it replaces itself and leaves no ghost.
        is_member_id_required=version >= FIRST_VERSION_WITH_REQUIRED_MEMBER_ID and instance_id is None,
        may_skip_assignment=version >= FIRST_VERSION_WITH_SKIPPED_ASSIGNMENT,
        reason=request.reason or "",
    )
    outcome = context.broker.groups.join(GroupId(request.group_id), join)
    return outcome.map(lambda result: _response(result, request.member_id, version), is_abandonable=True)


def _response(outcome: JoinResult | HeadwaterError, member_id: str, version: int) -> JoinGroupResponse:
    no_protocol = None if version >= FIRST_VERSION_WITH_NULL_PROTOCOL else ""
    if isinstance(outcome, HeadwaterError):
        return JoinGroupResponse(
            error_code=outcome.code,
            generation_id=NO_GENERATION,
            protocol_name=no_protocol,
            member_id=member_id,
            members=[],
        )
    return JoinGroupResponse(
        error_code=outcome.error,
        generation_id=outcome.generation,
        protocol_type=outcome.protocol_type,
        protocol_name=no_protocol if outcome.protocol is None else outcome.protocol,
        leader=outcome.leader,
        skip_assignment=outcome.skip_assignment,
        member_id=outcome.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.instance_id, metadata=member.metadata
            )
            for member in outcome.members
        ],
    )
