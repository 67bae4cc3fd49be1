"""DescribeUserScramCredentials (key 50), v0, flexible: which credentials users have. None or no user asks for all."""

from headwater.protocol.wire.codec import Request, Response, Struct, int8, int16, int32


class UserName(Struct):
    name: str


class DescribeUserScramCredentialsRequest(Request, key=50, versions="0", flexible="0+"):
    users: list[UserName] | None


class CredentialInfo(Struct):
    mechanism: int8
    iterations: int32


class DescribeUserScramCredentialsResult(Struct):
    user: str
    error_code: int16 = 0
    error_message: str | None = None
    credential_infos: list[CredentialInfo]


class DescribeUserScramCredentialsResponse(Response, key=50, versions="0", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    results: list[DescribeUserScramCredentialsResult]
