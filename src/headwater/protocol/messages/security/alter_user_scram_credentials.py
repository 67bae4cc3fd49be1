"""AlterUserScramCredentials (key 51), v0, flexible. The client salts the password: the broker never sees it."""

from headwater.protocol.wire.codec import Request, Response, Struct, int8, int16, int32


class ScramCredentialDeletion(Struct):
    name: str
    mechanism: int8


class ScramCredentialUpsertion(Struct):
    name: str
    mechanism: int8
    iterations: int32
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:
        """Leaves out what one could log in with."""
        return f"{type(self).__name__}(name={self.name!r}, mechanism={self.mechanism})"


class AlterUserScramCredentialsRequest(Request, key=51, versions="0", flexible="0+"):
    deletions: list[ScramCredentialDeletion]
    upsertions: list[ScramCredentialUpsertion]


class AlterUserScramCredentialsResult(Struct):
    user: str
    error_code: int16 = 0
    error_message: str | None


class AlterUserScramCredentialsResponse(Response, key=51, versions="0", flexible="0+"):
    throttle_time_ms: int32 = 0
    results: list[AlterUserScramCredentialsResult]
