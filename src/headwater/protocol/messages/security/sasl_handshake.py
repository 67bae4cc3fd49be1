"""SaslHandshake (key 17), v0-1: since v1, SaslAuthenticate requests follow it, not bare bytes."""

from headwater.protocol.wire.codec import Request, Response, int16


class SaslHandshakeRequest(Request, key=17, versions="0-1"):
    mechanism: str


class SaslHandshakeResponse(Response, key=17, versions="0-1"):
    error_code: int16 = 0
    mechanisms: list[str]
