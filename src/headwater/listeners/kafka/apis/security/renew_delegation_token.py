"""RenewDelegationToken (key 39), v1-2: moves the end of a token further away, for its owner and its renewers."""

from headwater.broker.audit.event import EventType
from headwater.errors import HeadwaterError
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.security.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

REQUEST = RenewDelegationTokenRequest


async def handle(request: RenewDelegationTokenRequest, context: Context) -> RenewDelegationTokenResponse:
    try:
        context.check_may_use_tokens()
        tokens = context.broker.access.tokens
        hmac = bytes(request.hmac)
        with context.guard.change(EventType.TOKEN_CHANGE, tokens.described(hmac), {"action": "renew"}):
            expires_ms = await tokens.renew(hmac, context.principal, request.renew_period_ms)
    except HeadwaterError as error:
        return RenewDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=-1)
    return RenewDelegationTokenResponse(expiry_timestamp_ms=expires_ms)
