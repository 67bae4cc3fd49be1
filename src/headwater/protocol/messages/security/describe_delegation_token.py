"""DescribeDelegationToken (key 41), v1-3: v2 is flexible, v3 tells who asked for a token. None asks for all owners."""

from headwater.protocol.wire.codec import Request, Response, Struct, field, int16, int32, int64


class DescribeDelegationTokenOwner(Struct):
    principal_type: str
    principal_name: str


class DescribeDelegationTokenRequest(Request, key=41, versions="1-3", flexible="2+"):
    owners: list[DescribeDelegationTokenOwner] | None


class DescribedDelegationTokenRenewer(Struct):
    principal_type: str
    principal_name: str


class DescribedDelegationToken(Struct):
    principal_type: str
    principal_name: str
    token_requester_principal_type: str = field(versions="3+")
    token_requester_principal_name: str = field(versions="3+")
    issue_timestamp: int64
    expiry_timestamp: int64
    max_timestamp: int64
    token_id: str
    hmac: bytes
    renewers: list[DescribedDelegationTokenRenewer]

    def __repr__(self) -> str:
        """Leaves out what one could log in with."""
        return f"{type(self).__name__}(token_id={self.token_id!r})"


class DescribeDelegationTokenResponse(Response, key=41, versions="1-3", flexible="2+"):
    error_code: int16 = 0
    tokens: list[DescribedDelegationToken]
    throttle_time_ms: int32 = 0
