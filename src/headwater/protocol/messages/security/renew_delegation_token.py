"""RenewDelegationToken (key 39), v1-2: v2 is flexible."""

from headwater.protocol.wire.codec import Request, Response, int16, int32, int64


class RenewDelegationTokenRequest(Request, key=39, versions="1-2", flexible="2+"):
    hmac: bytes
    renew_period_ms: int64

    def __repr__(self) -> str:
        """Leaves out what one could log in with."""
        return f"{type(self).__name__}(hmac=...)"


class RenewDelegationTokenResponse(Response, key=39, versions="1-2", flexible="2+"):
    error_code: int16 = 0
    expiry_timestamp_ms: int64
    throttle_time_ms: int32 = 0
