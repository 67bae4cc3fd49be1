"""DeleteGroups (key 42): groups without members, with all that they committed."""

from headwater.errors import ErrorCode, HeadwaterError
from headwater.ids import GroupId
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.groups.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

REQUEST = DeleteGroupsRequest


async def handle(request: DeleteGroupsRequest, context: Context) -> DeleteGroupsResponse:
    deleted = [(group_id, context.broker.groups.delete(GroupId(group_id))) for group_id in request.groups_names]
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=group_id, error_code=_code(await outcome.wait()))
            for group_id, outcome in deleted
        ]
    )


def _code(outcome: HeadwaterError | None) -> ErrorCode:
    return ErrorCode.NONE if outcome is None else outcome.code
