"""DescribeAcls (key 29), v1-3: the rules that a filter selects, by resource. Rules that roles stand for are not among
them. v2 is flexible, v3 knows resources of the type user."""

from headwater.errors import HeadwaterError
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.security.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from headwater.security.acl import CLUSTER, Acl, AclFilter, Operation, PatternType, Permission, ResourceType, by_number

REQUEST = DescribeAclsRequest


def handle(request: DescribeAclsRequest, context: Context) -> DescribeAclsResponse:
    try:
        context.guard.check(Operation.DESCRIBE, CLUSTER)
        found = context.broker.access.rules.describe(
            AclFilter(
                by_number(ResourceType, request.resource_type_filter),
                request.resource_name_filter,
                by_number(PatternType, request.pattern_type_filter),
                request.principal_filter,
                request.host_filter,
                by_number(Operation, request.operation),
                by_number(Permission, request.permission_type),
            )
        )
    except HeadwaterError as error:
        return DescribeAclsResponse(error_code=error.code, error_message=str(error), resources=[])
    by_resource: dict[tuple[ResourceType, str, PatternType], list[Acl]] = {}
    for acl in found:
        by_resource.setdefault((acl.resource_type, acl.name, acl.pattern), []).append(acl)
    return DescribeAclsResponse(
        resources=[
            DescribeAclsResource(
                resource_type=resource_type,
                resource_name=name,
                pattern_type=pattern,
                acls=[
                    AclDescription(
                        principal=acl.principal,
                        host=acl.host,
                        operation=acl.operation,
                        permission_type=acl.permission,
                    )
                    for acl in acls
                ],
            )
            for (resource_type, name, pattern), acls in by_resource.items()
        ]
    )
