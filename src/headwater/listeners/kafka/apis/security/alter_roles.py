"""AlterRoles (key 10003), v0: an API of Headwater's own: creates, deletes, grants and revokes roles, each by itself."""

from collections.abc import Awaitable

from headwater.broker.access.guard import Guard
from headwater.broker.audit.event import EventType
from headwater.errors import HeadwaterError
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.security.alter_roles import (
    AlterRolesRequest,
    AlterRolesResponse,
    AlterRolesResult,
    RoleCreation,
)
from headwater.protocol.messages.security.describe_roles import Grant
from headwater.security.acl import CLUSTER, Operation, PatternType, ResourceType, by_number
from headwater.security.roles import Role, RoleGrant

REQUEST = AlterRolesRequest


async def handle(request: AlterRolesRequest, context: Context) -> AlterRolesResponse:
    try:
        context.guard.check(Operation.ALTER, CLUSTER)
        rules = context.broker.access.rules
    except HeadwaterError as error:
        return _refused(request, error)

    async def create(creation: RoleCreation) -> None:
        await rules.create_role(_role(creation))

    async def grant(grant: Grant) -> None:
        await rules.grant(_grant(grant))

    async def revoke(grant: Grant) -> None:
        await rules.revoke(_grant(grant))

    guard = context.guard
    return AlterRolesResponse(
        creations=[await _result(create(each), guard, "create", each.name) for each in request.creations],
        grants=[await _result(grant(each), guard, "grant", _named(each)) for each in request.grants],
        revocations=[await _result(revoke(each), guard, "revoke", _named(each)) for each in request.revocations],
        deletions=[await _result(rules.delete_role(name), guard, "delete", name) for name in request.deletions],
    )


def _refused(request: AlterRolesRequest, error: HeadwaterError) -> AlterRolesResponse:
    result = AlterRolesResult(error_code=error.code, error_message=str(error))
    changes = (request.creations, request.grants, request.revocations, request.deletions)
    creations, grants, revocations, deletions = ([result] * len(each) for each in changes)
    return AlterRolesResponse(creations=creations, grants=grants, revocations=revocations, deletions=deletions)


def _named(grant: Grant) -> str:
    return f"{grant.role} to {grant.principal} on {grant.resource_name}"


async def _result(change: Awaitable[None], guard: Guard, action: str, named: str) -> AlterRolesResult:
    try:
        with guard.change(EventType.ROLE_CHANGE, f"role {named}", {"action": action}):
            await change
    except HeadwaterError as error:
        return AlterRolesResult(error_code=error.code, error_message=str(error))
    return AlterRolesResult()


def _role(creation: RoleCreation) -> Role:
    return Role(
        creation.name,
        {
            by_number(ResourceType, each.resource_type): frozenset(
                by_number(Operation, operation) for operation in each.operations
            )
            for each in creation.permissions
        },
    )


def _grant(given: Grant) -> RoleGrant:
    return RoleGrant(
        given.role,
        given.principal,
        by_number(ResourceType, given.resource_type),
        given.resource_name,
        by_number(PatternType, given.pattern_type),
    )
