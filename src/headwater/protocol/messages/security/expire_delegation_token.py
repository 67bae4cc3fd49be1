"""ExpireDelegationToken (key 40), v1-2: v2 is flexible."""

from headwater.protocol.wire.codec import Request, Response, int16, int32, int64


class ExpireDelegationTokenRequest(Request, key=40, versions="1-2", flexible="2+"):
    hmac: bytes
    expiry_time_period_ms: int64

    def __repr__(self) -> str:
        """Leaves out what one could log in with."""
        return f"{type(self).__name__}(hmac=...)"


class ExpireDelegationTokenResponse(Response, key=40, versions="1-2", flexible="2+"):
    error_code: int16 = 0
    expiry_timestamp_ms: int64
    throttle_time_ms: int32 = 0
