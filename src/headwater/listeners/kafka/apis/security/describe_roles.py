"""DescribeRoles (key 10002), v0: an API of Headwater's own: all roles and to whom they are granted."""

from headwater.errors import HeadwaterError
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.security.describe_roles import (
    DescribedRole,
    DescribeRolesRequest,
    DescribeRolesResponse,
    Grant,
    RolePermission,
)
from headwater.security.acl import CLUSTER, Operation
from headwater.security.roles import READY_ROLES

REQUEST = DescribeRolesRequest


def handle(_: DescribeRolesRequest, context: Context) -> DescribeRolesResponse:
    try:
        context.guard.check(Operation.DESCRIBE, CLUSTER)
        rules = context.broker.access.rules
    except HeadwaterError as error:
        return DescribeRolesResponse(error_code=error.code, error_message=str(error), roles=[], grants=[])
    return DescribeRolesResponse(
        roles=[
            DescribedRole(
                name=name,
                is_ready=name in READY_ROLES,
                permissions=[
                    RolePermission(resource_type=resource_type, operations=[*sorted(operations)])
                    for resource_type, operations in role.permissions.items()
                ],
            )
            for name, role in rules.roles().items()
        ],
        grants=[
            Grant(
                role=grant.role,
                principal=grant.principal,
                resource_type=grant.resource_type,
                resource_name=grant.name,
                pattern_type=grant.pattern,
            )
            for grant in rules.grants()
        ],
    )
