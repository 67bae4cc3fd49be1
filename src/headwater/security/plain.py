"""SASL PLAIN (RFC 4616) on the broker's side: one message with user name and password, separated by NUL.

Law: the password appears in no failure, log or repr.
"""

from collections.abc import Callable

from headwater.security.mechanisms import Failure, Step

MESSAGE_BYTES_MAX = 4_096

# Verifies a password. The step is no challenge: PLAIN has none.
VerifyPassword = Callable[[str, str], Step]


def encode(user: str, password: str) -> bytes:
    """The client's message."""
    return b"\0".join((b"", user.encode(), password.encode()))


class PlainServer:
    def __init__(self, verify: VerifyPassword) -> None:
        self._verify = verify

    def respond(self, message: bytes) -> Step:
        if len(message) > MESSAGE_BYTES_MAX:
            return Failure(f"a message of {len(message)} bytes, where up to {MESSAGE_BYTES_MAX} are read")
        try:
            parts = message.decode().split("\0")
        except UnicodeDecodeError:
            return Failure("the client's message is not UTF-8")
        if len(parts) != 3:
            return Failure("the client's message is not one of PLAIN")
        authorization, user, password = parts
        if not user or not password:
            return Failure("the client's message has an empty user name or password", user)
        # CVE-2017-12610: nobody acts for somebody else.
        if authorization not in ("", user):
            return Failure("the client asks to act for another user", user)
        return self._verify(user, password)
