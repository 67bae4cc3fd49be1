"""SaslAuthenticate (key 36), v0-2: a message of the mechanism that SaslHandshake agreed on, and the answer to it. v1
tells for how long the authentication is valid, v2 is flexible."""

from headwater.errors import ErrorCode
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.security.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

REQUEST = SaslAuthenticateRequest


async def handle(request: SaslAuthenticateRequest, context: Context) -> SaslAuthenticateResponse:
    if context.session is None:
        return SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE,
            error_message="this listener asks nobody who they are",
            auth_bytes=b"",
        )
    answer = await context.session.authenticate(bytes(request.auth_bytes))
    return SaslAuthenticateResponse(
        error_code=answer.error_code,
        error_message=answer.error_message,
        auth_bytes=answer.data,
        session_lifetime_ms=answer.lifetime_ms,
    )
