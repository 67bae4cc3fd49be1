"""DeleteGroups (key 42), v0-2: deletes groups without members, with the offsets that they committed. v2 is flexible."""

from headwater.broker.audit.event import EventType
from headwater.broker.pending import result_of
from headwater.errors import ErrorCode
from headwater.ids import GroupId
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.groups.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from headwater.security.acl import Operation, group

REQUEST = DeleteGroupsRequest


async def handle(request: DeleteGroupsRequest, context: Context) -> DeleteGroupsResponse:
    delete = context.broker.delete_group
    outcomes = [
        (group_id, context.guard.denial(Operation.DELETE, group(group_id)) or delete(GroupId(group_id)))
        for group_id in request.groups_names
    ]
    results: list[DeletableGroupResult] = []
    for group_id, outcome in outcomes:
        error = await result_of(outcome)
        context.guard.changed(EventType.GROUP_DELETE, str(group(group_id)), error)
        results.append(
            DeletableGroupResult(group_id=group_id, error_code=ErrorCode.NONE if error is None else error.code)
        )
    return DeleteGroupsResponse(results=results)
