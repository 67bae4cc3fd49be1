"""ExpireDelegationToken (key 40), v1-2: sets the end of a token, which a negative period makes now."""

from headwater.broker.audit.event import EventType
from headwater.errors import HeadwaterError
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.security.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)

REQUEST = ExpireDelegationTokenRequest


async def handle(request: ExpireDelegationTokenRequest, context: Context) -> ExpireDelegationTokenResponse:
    try:
        context.check_may_use_tokens()
        tokens = context.broker.access.tokens
        hmac = bytes(request.hmac)
        with context.guard.change(EventType.TOKEN_CHANGE, tokens.described(hmac), {"action": "expire"}):
            expires_ms = await tokens.expire(hmac, context.principal, request.expiry_time_period_ms)
    except HeadwaterError as error:
        return ExpireDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=-1)
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=expires_ms)
