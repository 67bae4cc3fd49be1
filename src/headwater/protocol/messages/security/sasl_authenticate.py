"""SaslAuthenticate (key 36), v0-2: v1 adds the session's lifetime, v2 is flexible."""

from headwater.protocol.wire.codec import Request, Response, field, int16, int64


class SaslAuthenticateRequest(Request, key=36, versions="0-2", flexible="2+"):
    auth_bytes: bytes

    def __repr__(self) -> str:
        """Leaves out the bytes: they may hold a password."""
        return f"{type(self).__name__}(auth_bytes=...)"


class SaslAuthenticateResponse(Response, key=36, versions="0-2", flexible="2+"):
    error_code: int16 = 0
    error_message: str | None = None
    auth_bytes: bytes
    session_lifetime_ms: int64 = field(versions="1+", default=0)
