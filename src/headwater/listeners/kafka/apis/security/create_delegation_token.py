"""CreateDelegationToken (key 38), v1-3: a token for the client itself, since v3 also for another owner."""

from headwater.broker.access.tokens import TokenWithHmac
from headwater.errors import ErrorCode, HeadwaterError
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.security.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from headwater.security.principals import Principal

REQUEST = CreateDelegationTokenRequest


async def handle(request: CreateDelegationTokenRequest, context: Context) -> CreateDelegationTokenResponse:
    requester = context.principal
    owner = requester
    # As in Kafka, an owner is one that has both a type and a name.
    if request.owner_principal_type and request.owner_principal_name:
        owner = Principal(request.owner_principal_type, request.owner_principal_name)
    try:
        context.check_may_use_tokens()
        renewers = [Principal(each.principal_type, each.principal_name) for each in request.renewers]
        created = await context.broker.tokens.create(owner, requester, renewers, request.max_lifetime_ms)
    except HeadwaterError as error:
        return _response(error.code, owner, requester)
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
