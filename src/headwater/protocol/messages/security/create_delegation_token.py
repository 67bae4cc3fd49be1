"""CreateDelegationToken (key 38), v1-3: v2 is flexible, v3 creates tokens for other owners."""

from headwater.protocol.wire.codec import Request, Response, Struct, field, int16, int32, int64


class CreatableRenewers(Struct):
    principal_type: str
    principal_name: str


class CreateDelegationTokenRequest(Request, key=38, versions="1-3", flexible="2+"):
    owner_principal_type: str | None = field(versions="3+")
    owner_principal_name: str | None = field(versions="3+")
    renewers: list[CreatableRenewers]
    max_lifetime_ms: int64


class CreateDelegationTokenResponse(Response, key=38, versions="1-3", flexible="2+"):
    error_code: int16 = 0
    principal_type: str
    principal_name: str
    token_requester_principal_type: str = field(versions="3+")
    token_requester_principal_name: str = field(versions="3+")
    issue_timestamp_ms: int64
    expiry_timestamp_ms: int64
    max_timestamp_ms: int64
    token_id: str
    hmac: bytes
    throttle_time_ms: int32 = 0

    def __repr__(self) -> str:
        """Leaves out what one could log in with."""
        return f"{type(self).__name__}(error_code={self.error_code}, token_id={self.token_id!r})"
