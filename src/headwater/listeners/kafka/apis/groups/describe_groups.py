"""DescribeGroups (key 15), v0-6: classic groups with their members, subscriptions and assignments.

v4 adds static members, v5 is flexible, v6 has an error for a group that does not exist; before, it is a DEAD group."""

from headwater.broker.pending import result_of
from headwater.coordination.groups.classic.commands import ClassicDescription
from headwater.coordination.groups.terms import GroupState
from headwater.errors import ErrorCode, HeadwaterError
from headwater.ids import GroupId
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.groups.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from headwater.protocol.messages.topics.metadata import NO_AUTHORIZED_OPERATIONS
from headwater.security.acl import Operation, group

REQUEST = DescribeGroupsRequest

# In older versions, a group that does not exist is described as DEAD.
FIRST_VERSION_WITH_NOT_FOUND = 6


async def handle(request: DescribeGroupsRequest, context: Context) -> DescribeGroupsResponse:
    # Once each: a request that names a group a thousand times must not get its members a thousand times.
    names = dict.fromkeys(request.groups)
    describe = context.broker.groups.describe_classic
    outcomes = [
        (group_id, context.guard.denial(Operation.DESCRIBE, group(group_id)) or describe(GroupId(group_id)))
        for group_id in names
    ]
    return DescribeGroupsResponse(
        groups=[_described(group_id, await result_of(outcome), request, context) for group_id, outcome in outcomes]
    )


def _described(
    group_id: str, outcome: ClassicDescription | HeadwaterError, request: DescribeGroupsRequest, context: Context
) -> DescribedGroup:
    operations = NO_AUTHORIZED_OPERATIONS
    if request.include_authorized_operations:
        operations = context.guard.operations(group(group_id))
    if isinstance(outcome, HeadwaterError):
        is_missing = outcome.code is ErrorCode.GROUP_ID_NOT_FOUND
        has_code = context.api_version >= FIRST_VERSION_WITH_NOT_FOUND or not is_missing
        return DescribedGroup(
            error_code=outcome.code if has_code else ErrorCode.NONE,
            error_message=str(outcome),
            group_id=group_id,
            group_state=GroupState.DEAD.value if is_missing else "",
            members=[],
            authorized_operations=NO_AUTHORIZED_OPERATIONS if has_code else operations,
        )
    return DescribedGroup(
        group_id=group_id,
        group_state=outcome.state.value,
        protocol_type=outcome.protocol_type,
        protocol_data=outcome.protocol,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in outcome.members
        ],
        authorized_operations=operations,
    )
