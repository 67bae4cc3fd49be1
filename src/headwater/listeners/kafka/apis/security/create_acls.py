"""CreateAcls (key 30), v1-3: adds rules. Each is added, or refused, by itself; one that is there already is no error.
v2 is flexible, v3 knows resources of the type user."""

from headwater.broker.audit.event import EventType
from headwater.errors import HeadwaterError
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.security.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from headwater.security.acl import CLUSTER, Acl, Operation, PatternType, Permission, ResourceType, by_number

REQUEST = CreateAclsRequest


async def handle(request: CreateAclsRequest, context: Context) -> CreateAclsResponse:
    asked = [_acl(creation) for creation in request.creations]
    try:
        context.guard.check(Operation.ALTER, CLUSTER)
        rules = context.broker.access.rules
        decided = iter(await rules.create([each for each in asked if isinstance(each, Acl)]))
    except HeadwaterError as error:
        return CreateAclsResponse(results=[_result(error)] * len(asked))
    outcomes = [next(decided) if isinstance(each, Acl) else each for each in asked]
    for acl, outcome in zip(asked, outcomes, strict=True):
        if isinstance(acl, Acl):
            context.guard.changed(EventType.ACL_CHANGE, str(acl), outcome, {"action": "add"})
    return CreateAclsResponse(results=[_result(each) for each in outcomes])


def _acl(creation: AclCreation) -> Acl | HeadwaterError:
    try:
        return Acl(
            by_number(ResourceType, creation.resource_type),
            creation.resource_name,
            by_number(PatternType, creation.resource_pattern_type),
            creation.principal,
            creation.host,
            by_number(Operation, creation.operation),
            by_number(Permission, creation.permission_type),
        )
    except HeadwaterError as refusal:
        return refusal.kept()


def _result(error: HeadwaterError | None) -> AclCreationResult:
    if error is None:
        return AclCreationResult()
    return AclCreationResult(error_code=error.code, error_message=str(error))
