"""ListGroups (key 16), v0-5: all groups. v3 is flexible, v4 filters by state, v5 by type."""

from headwater.errors import HeadwaterError
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.groups.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

REQUEST = ListGroupsRequest


async def handle(request: ListGroupsRequest, context: Context) -> ListGroupsResponse:
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
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
            if (not states or group.state.value.lower() in states) and (not types or group.type.value in types)
        ]
    )
