"""DescribeGroups (key 15): classic groups, their members and what these have."""

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

REQUEST = DescribeGroupsRequest

# Before it, a group that is not there is a dead one.
FIRST_VERSION_WITH_NOT_FOUND = 6


async def handle(request: DescribeGroupsRequest, context: Context) -> DescribeGroupsResponse:
    # Once each: whoever names a group a thousand times would get its members a thousand times.
    names = dict.fromkeys(request.groups)
    asked = [(group_id, context.broker.groups.describe_classic(GroupId(group_id))) for group_id in names]
    return DescribeGroupsResponse(
        groups=[_described(group_id, await outcome.wait(), context) for group_id, outcome in asked]
    )


def _described(group_id: str, outcome: ClassicDescription | HeadwaterError, context: Context) -> DescribedGroup:
    if isinstance(outcome, HeadwaterError):
        is_missing = outcome.code is ErrorCode.GROUP_ID_NOT_FOUND
        has_code = context.api_version >= FIRST_VERSION_WITH_NOT_FOUND or not is_missing
        return DescribedGroup(
            error_code=outcome.code if has_code else ErrorCode.NONE,
            error_message=str(outcome),
            group_id=group_id,
            group_state=GroupState.DEAD.value if is_missing else "",
            members=[],
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
    )
