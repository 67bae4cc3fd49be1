"""SASL OAUTHBEARER (RFC 7628): the client sends a token that somebody else has issued and signed.

Law: the token appears in no failure, log or repr.
"""

import json
import re
from collections.abc import Callable, Mapping

from headwater.errors import ConfigError
from headwater.security.jwt import TOKEN_BYTES_MAX, InvalidToken, ValidToken
from headwater.security.mechanisms import Challenge, Failure, Step, Success
from headwater.security.principals import user

# The token, and room for extensions.
MESSAGE_BYTES_MAX = TOKEN_BYTES_MAX + 16_384

# The rules of the RFC for keys and values, which are those of Kafka, too. `auth` is the key of the token.
_KEY = r"[A-Za-z]+"
_VALUE = r"[\x20-\x7E\t\r\n]*"
_HEADER = re.compile(r"n,(?:a=(?P<authorization>[^,=\0\x01]+))?,")
_AUTH = "auth"
_TOKEN = re.compile(r"(?i:bearer) +(?P<token>[-_A-Za-z0-9.~+/]+=*)")

ValidateToken = Callable[[str], ValidToken]


def encode(token: str, extensions: Mapping[str, str] | None = None) -> bytes:
    """The client's message."""
    if not re.fullmatch(_TOKEN, f"Bearer {token}"):
        raise ConfigError("the token for SASL OAUTHBEARER holds a character that no token has")
    pairs = {_AUTH: f"Bearer {token}"}
    for key, value in (extensions or {}).items():
        if key == _AUTH or not re.fullmatch(_KEY, key) or not re.fullmatch(_VALUE, value):
            raise ConfigError(f"the SASL extension {key[:40]!r} has a name or a value that cannot be sent")
        pairs[key] = value
    return ("n,,\1" + "".join(f"{key}={value}\1" for key, value in pairs.items()) + "\1").encode()


def error_status(answer: bytes) -> str | None:
    """Why the broker refuses a token, if its answer says so."""
    try:
        found = json.loads(answer)
    except (ValueError, RecursionError):
        return None
    match found:
        case {"status": str(status)}:
            return status
        case _:
            return None


class OAuthBearerServer:
    def __init__(self, validate: ValidateToken) -> None:
        """`validate` raises InvalidToken."""
        self._validate = validate
        self._failure: Failure | None = None

    def respond(self, message: bytes) -> Step:
        if self._failure is not None:
            # The client has read the error that it was told (RFC 7628, 3.2.3).
            return self._failure
        try:
            authorization, token = _decode(message)
        except ValueError as error:
            return Failure(str(error))
        try:
            valid = self._validate(token)
        except InvalidToken as error:
            self._failure = Failure(str(error))
            return Challenge(b'{"status":"invalid_token"}', self._failure)
        # CVE-2017-12610: nobody acts for somebody else.
        if authorization not in ("", valid.principal):
            return Failure("the client asks to act for another user", valid.principal)
        return Success(user(valid.principal), expires_ms=valid.expires_ms)


def _decode(message: bytes) -> tuple[str, str]:
    """For whom the client acts, and its token. Extensions are checked and ignored, as Kafka does."""
    if len(message) > MESSAGE_BYTES_MAX:
        raise ValueError(f"a message of {len(message)} bytes, where up to {MESSAGE_BYTES_MAX} are read")
    try:
        header, *pairs = message.decode().split("\1")
    except UnicodeDecodeError:
        raise ValueError("the client's message is not UTF-8") from None
    matched = _HEADER.fullmatch(header)
    # Every pair ends in \1, and so does the message.
    if matched is None or pairs[-2:] != ["", ""]:
        raise ValueError("the client's message is not one of OAUTHBEARER")
    found: dict[str, str] = {}
    for pair in pairs[:-2]:
        key, separator, value = pair.partition("=")
        if not separator or key in found or not re.fullmatch(_KEY, key) or not re.fullmatch(_VALUE, value):
            raise ValueError("the client's message has an extension that is not KEY=VALUE")
        found[key] = value
    token = _TOKEN.fullmatch(found.get(_AUTH, ""))
    if token is None:
        raise ValueError("the client's message has no bearer token")
    return matched["authorization"] or "", token["token"]
