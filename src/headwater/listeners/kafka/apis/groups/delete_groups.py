"""DeleteGroups (key 42), v0-2: deletes groups without members, with the offsets that they committed. v2 is flexible."""

from headwater.broker.pending import result_of
from headwater.errors import ErrorCode, HeadwaterError
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
    delete = context.broker.groups.delete
    outcomes = [
        (group_id, context.guard.denial(Operation.DELETE, group(group_id)) or delete(GroupId(group_id)))
        for group_id in request.groups_names
    ]
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=group_id, error_code=_code(await result_of(outcome)))
            for group_id, outcome in outcomes
        ]
    )


def _code(outcome: HeadwaterError | None) -> ErrorCode:
    return ErrorCode.NONE if outcome is None else outcome.code
