"""DeleteAcls (key 31), v1-3: removes the rules that each filter selects, and names them. v2 is flexible, v3 knows
resources of the type user."""

from headwater.broker.audit.event import EventType
from headwater.coordination.access.machine import RemovalOutcome
from headwater.errors import HeadwaterError
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.security.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from headwater.security.acl import CLUSTER, AclFilter, Operation, PatternType, Permission, ResourceType, by_number

REQUEST = DeleteAclsRequest


async def handle(request: DeleteAclsRequest, context: Context) -> DeleteAclsResponse:
    asked = [_filter(each) for each in request.filters]
    try:
        context.guard.check(Operation.ALTER, CLUSTER)
        rules = context.broker.access.rules
        decided = iter(await rules.delete([each for each in asked if isinstance(each, AclFilter)]))
    except HeadwaterError as error:
        return DeleteAclsResponse(filter_results=[_result(error)] * len(asked))
    outcomes = [next(decided) if isinstance(each, AclFilter) else each for each in asked]
    removed = {acl: None for found in outcomes if not isinstance(found, HeadwaterError) for acl in found}
    for acl in removed:
        context.guard.changed(EventType.ACL_CHANGE, str(acl), None, {"action": "remove"})
    return DeleteAclsResponse(filter_results=[_result(each) for each in outcomes])


def _filter(given: DeleteAclsFilter) -> AclFilter | HeadwaterError:
    try:
        return AclFilter(
            by_number(ResourceType, given.resource_type_filter),
            given.resource_name_filter,
            by_number(PatternType, given.pattern_type_filter),
            given.principal_filter,
            given.host_filter,
            by_number(Operation, given.operation),
            by_number(Permission, given.permission_type),
        )
    except HeadwaterError as refusal:
        return refusal.kept()


def _result(outcome: RemovalOutcome) -> DeleteAclsFilterResult:
    if isinstance(outcome, HeadwaterError):
        return DeleteAclsFilterResult(error_code=outcome.code, error_message=str(outcome), matching_acls=[])
    return DeleteAclsFilterResult(
        matching_acls=[
            DeleteAclsMatchingAcl(
                resource_type=acl.resource_type,
                resource_name=acl.name,
                pattern_type=acl.pattern,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in outcome
        ]
    )
