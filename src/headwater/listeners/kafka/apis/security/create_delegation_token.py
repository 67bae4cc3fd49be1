"""CreateDelegationToken (key 38), v1-3: a token for the client itself, since v3 also for another owner."""

from headwater.broker.access.tokens import TokenWithHmac
from headwater.broker.audit.event import EventType
from headwater.errors import ErrorCode, HeadwaterError, Refusal
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.security.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from headwater.security.acl import Operation, user_resource
from headwater.security.principals import USER, Principal

REQUEST = CreateDelegationTokenRequest


async def handle(request: CreateDelegationTokenRequest, context: Context) -> CreateDelegationTokenResponse:
    requester = context.principal
    owner = requester
    # As in Kafka, an owner is one that has both a type and a name.
    if request.owner_principal_type and request.owner_principal_name:
        owner = Principal(request.owner_principal_type, request.owner_principal_name)
    try:
        context.check_may_use_tokens()
        if owner != requester:
            context.guard.check(Operation.CREATE_TOKENS, user_resource(owner))
        if any(each.principal_type != USER for each in request.renewers):
            raise Refusal(ErrorCode.INVALID_PRINCIPAL_TYPE, f"renewers are of the type {USER}")
        renewers = [Principal(each.principal_type, each.principal_name) for each in request.renewers]
        tokens = context.broker.access.tokens
        try:
            created = await tokens.create(owner, requester, renewers, request.max_lifetime_ms)
        except HeadwaterError as error:
            context.guard.changed(EventType.TOKEN_CHANGE, f"delegation token of {owner}", error, {"action": "create"})
            raise
    except HeadwaterError as error:
        return _response(error.code, owner, requester)
    context.guard.changed(EventType.TOKEN_CHANGE, tokens.described(created.hmac), None, {"action": "create"})
    return _response(ErrorCode.NONE, owner, requester, created)


def _response(
    code: ErrorCode, owner: Principal, requester: Principal, created: TokenWithHmac | None = None
) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=-1 if created is None else created.token.issued_ms,
        expiry_timestamp_ms=-1 if created is None else created.token.expires_ms,
        max_timestamp_ms=-1 if created is None else created.token.max_ms,
        token_id="" if created is None else created.token.id,
        hmac=b"" if created is None else created.hmac,
    )
