"""ListGroups (key 16), v0-5: all groups. v3 is flexible, v4 filters by state, v5 by type."""

from headwater.errors import HeadwaterError
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.groups.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from headwater.security.acl import CLUSTER, Operation
from headwater.security.acl import group as named

REQUEST = ListGroupsRequest


async def handle(request: ListGroupsRequest, context: Context) -> ListGroupsResponse:
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    guard = context.guard
    sees_all = guard.allows(Operation.DESCRIBE, CLUSTER, is_probe=True)
    try:
        groups = await context.broker.groups.list()
    except HeadwaterError as error:
        return ListGroupsResponse(error_code=error.code, groups=[])
    return ListGroupsResponse(
        groups=[
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state.value,
                group_type=group.type.value,
            )
            for group in groups
            if sees_all or guard.allows(Operation.DESCRIBE, named(group.group_id), is_probe=True)
            if (not states or group.state.value.lower() in states) and (not types or group.type.value in types)
        ]
    )
