"""SaslHandshake (key 17), v0-1: begins to authenticate with a mechanism, also before a session expires. After v0 the
messages of the mechanism come as such, after v1 in SaslAuthenticate requests.

On a listener without SASL, and in a session that never expires, it is an error (ILLEGAL_SASL_STATE)."""

from headwater.errors import ErrorCode
from headwater.listeners.kafka.context import Context
from headwater.protocol.messages.security.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

REQUEST = SaslHandshakeRequest


def handle(request: SaslHandshakeRequest, context: Context) -> SaslHandshakeResponse:
    session = context.session
    if session is None:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
    code, mechanisms = session.handshake(request.mechanism, is_bare=context.api_version == 0)
    return SaslHandshakeResponse(error_code=code, mechanisms=list(mechanisms))
