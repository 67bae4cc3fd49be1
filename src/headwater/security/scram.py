"""SCRAM (RFC 5802, RFC 7677): client and server prove to each other that they know a password without sending it.

Pure: messages in, messages out; nonces and salts are passed in. The other side's messages are untrusted until its proof
is verified. No channel binding, and no normalization of names and passwords (SASLprep): Kafka has neither.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Sequence
from typing import NamedTuple

from headwater.errors import ErrorCode, HeadwaterError
from headwater.printable import printable
from headwater.security.mechanisms import Challenge, Failure, Step, Success
from headwater.security.principals import Principal
from headwater.security.scram_keys import ITERATIONS_MIN, ScramKeys, ScramMechanism

# Limits what a hostile server can make a client compute to about a second.
CLIENT_ITERATIONS_MAX = 1_000_000
MESSAGE_BYTES_MAX = 4_096
# Of the credentials that Headwater makes itself.
SALT_BYTES = 24
# Long enough to be unique per exchange.
NONCE_BYTES = 24

_GS2_HEADER = b"n,,"
_ERROR_LENGTH_MAX = 200
_TOKEN_EXTENSION = (b"tokenauth", b"true")


class ScramFailed(HeadwaterError):
    """The other side refused us, or sent a message that nobody with the password would send."""

    code = ErrorCode.SASL_AUTHENTICATION_FAILED


def salted_password(digest: str, password: bytes, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac(digest, password, salt, iterations)


def keys_of_salted(digest: str, salted: bytes, salt: bytes, iterations: int) -> ScramKeys:
    client_key = hmac.digest(salted, b"Client Key", digest)
    return ScramKeys(
        salt, hashlib.new(digest, client_key).digest(), hmac.digest(salted, b"Server Key", digest), iterations
    )


def keys_of(digest: str, password: bytes, salt: bytes, iterations: int = ITERATIONS_MIN) -> ScramKeys:
    return keys_of_salted(digest, salted_password(digest, password, salt, iterations), salt, iterations)


def is_password(digest: str, password: bytes, keys: ScramKeys) -> bool:
    found = keys_of(digest, password, keys.salt, keys.iterations)
    return hmac.compare_digest(found.stored_key, keys.stored_key)


def fake_keys(mechanism: ScramMechanism, secret: bytes, user: str, salt_bytes: int, iterations: int) -> ScramKeys:
    """Keys that no password has, always the same for a user: otherwise a changing or missing salt would tell a client
    that there is no such user."""

    def derived(purpose: bytes, length: int) -> bytes:
        return hashlib.pbkdf2_hmac("sha256", secret, b"%s\0%s" % (purpose, user.encode()), 1, length)

    length = mechanism.digest_bytes
    return ScramKeys(derived(b"salt", salt_bytes), derived(b"stored", length), derived(b"server", length), iterations)


class ScramClient:
    """Call `first()`, then `final()` with the server's first answer, then `verify()` with its second one. Use a nonce
    for one exchange only; it has no comma."""

    def __init__(self, digest: str, username: str, password: str, nonce: str, *, is_token: bool = False) -> None:
        self._digest = digest
        self._password = password.encode()
        self._nonce = nonce.encode()
        extension = b",%s=%s" % _TOKEN_EXTENSION if is_token else b""
        self._first_bare = b"n=%s,r=%s%s" % (_escaped(username), self._nonce, extension)
        self._server_signature: bytes | None = None

    def first(self) -> bytes:
        return _GS2_HEADER + self._first_bare

    def final(self, server_first: bytes) -> bytes:
        nonce, salt, iterations = self._read_challenge(server_first)
        salted = salted_password(self._digest, self._password, salt, iterations)
        without_proof = b"c=%s,r=%s" % (base64.b64encode(_GS2_HEADER), nonce)
        signed = b",".join((self._first_bare, server_first, without_proof))
        client_key = hmac.digest(salted, b"Client Key", self._digest)
        keys = keys_of_salted(self._digest, salted, salt, iterations)
        proof = _xor(client_key, hmac.digest(keys.stored_key, signed, self._digest))
        self._server_signature = hmac.digest(keys.server_key, signed, self._digest)
        return b"%s,p=%s" % (without_proof, base64.b64encode(proof))

    def verify(self, server_final: bytes) -> None:
        """Raise ScramFailed unless the server has proved that it knows the password."""
        expected = self._server_signature
        assert expected is not None, "the server's last message answers our final one"
        kind, value = _attributes(server_final)[0]
        if kind == b"e":
            raise ScramFailed(f"the server says {printable(value.decode(errors='replace'))[:_ERROR_LENGTH_MAX]!r}")
        if kind != b"v" or not hmac.compare_digest(_decode(value), expected):
            raise ScramFailed("the server could not prove that it knows the password: it is not to be trusted")

    def _read_challenge(self, server_first: bytes) -> tuple[bytes, bytes, int]:
        """The common nonce, the salt, the iterations."""
        nonce, salt, iterations = _leading(_attributes(server_first), b"r", b"s", b"i")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise ScramFailed("the server's nonce does not extend ours")
        # Check the length before converting to a number. `isdigit` of bytes accepts ASCII digits only.
        if not iterations.isdigit() or len(iterations) > 9:
            raise ScramFailed("the server asks for a number of iterations that is none")
        if not ITERATIONS_MIN <= int(iterations) <= CLIENT_ITERATIONS_MAX:
            raise ScramFailed(
                f"the server asks for {int(iterations)} iterations, where {ITERATIONS_MIN} to {CLIENT_ITERATIONS_MAX} "
                "are done"
            )
        return nonce, _decode(salt), int(iterations)


class Account(NamedTuple):
    """Who logs in with a name, and the keys that verify the password."""

    principal: Principal
    keys: ScramKeys
    expires_ms: int | None = None


# Finds the account of a user, or of a delegation token if the second argument says so. Of an unknown name it gives one
# with `fake_keys`, so that the exchange is the same as with a wrong password.
FindAccount = Callable[[str, bool], Account]


class ScramServer:
    """One exchange with a client that authenticates. Use a nonce for one exchange only; it has no comma."""

    def __init__(self, mechanism: ScramMechanism, find: FindAccount, nonce: str) -> None:
        self._digest = mechanism.digest
        self._find = find
        self._nonce = nonce.encode()
        self._user = ""
        self._is_token = False
        self._gs2_header = b""
        self._messages: tuple[bytes, bytes] | None = None
        self._account: Account | None = None

    def respond(self, message: bytes) -> Step:
        try:
            if self._account is None:
                return self._challenge(message)
            return self._verify(message, self._account)
        except ScramFailed as failed:
            return Failure(str(failed), self._user)

    def _challenge(self, message: bytes) -> Challenge:
        binding, authorization, bare = _header(message)
        self._gs2_header = b"%s,%s," % (binding, authorization)
        attributes = _attributes(bare)
        name, nonce = _leading(attributes, b"n", b"r")
        extensions = attributes[2:]
        if any(not kind.isalpha() or kind == b"m" for kind, _ in extensions):
            raise ScramFailed("the client asks for an extension of SCRAM that is not known")
        self._user = _unescaped(name)
        # CVE-2017-12610: nobody acts for somebody else.
        if authorization and authorization != b"a=" + name:
            raise ScramFailed("the client asks to act for another user")
        self._is_token = _TOKEN_EXTENSION in extensions
        self._account = self._find(self._user, self._is_token)
        keys = self._account.keys
        self._nonce = nonce + self._nonce
        server_first = b"r=%s,s=%s,i=%d" % (self._nonce, base64.b64encode(keys.salt), keys.iterations)
        self._messages = bare, server_first
        return Challenge(server_first)

    def _verify(self, message: bytes, account: Account) -> Success:
        without_proof, separator, proof = message.rpartition(b",p=")
        if not separator:
            raise ScramFailed("the client's final message has no proof")
        binding, nonce = _leading(_attributes(without_proof), b"c", b"r")
        if _decode(binding) != self._gs2_header:
            raise ScramFailed("the client's final message does not fit its first one")
        # CVE-2024-56128.
        if not hmac.compare_digest(nonce, self._nonce):
            raise ScramFailed("the client's final message has another nonce (as librdkafka before 2.6.1 sends)")
        assert self._messages is not None, "the client's final message answers our first one"
        signed = b",".join((*self._messages, without_proof))
        signature = hmac.digest(account.keys.stored_key, signed, self._digest)
        decoded = _decode(proof)
        if len(decoded) != len(signature):
            raise ScramFailed("the client's proof has a wrong length")
        client_key = _xor(decoded, signature)
        if not hmac.compare_digest(hashlib.new(self._digest, client_key).digest(), account.keys.stored_key):
            raise ScramFailed("unknown user or wrong password")
        server_signature = hmac.digest(account.keys.server_key, signed, self._digest)
        return Success(
            account.principal,
            b"v=" + base64.b64encode(server_signature),
            expires_ms=account.expires_ms,
            is_by_token=self._is_token,
        )


def _header(message: bytes) -> tuple[bytes, bytes, bytes]:
    """Whether the client binds a channel, for whom it acts, and the rest of its first message."""
    parts = message.split(b",", 2)
    if len(parts) < 3 or not (parts[1] == b"" or parts[1].startswith(b"a=")):
        raise ScramFailed("the client's first message is not one of SCRAM")
    if parts[0] not in (b"n", b"y"):
        raise ScramFailed("the client asks for channel binding, which is not there")
    return parts[0], parts[1], parts[2]


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(one ^ other for one, other in zip(left, right, strict=True))


def _escaped(username: str) -> bytes:
    return username.replace("=", "=3D").replace(",", "=2C").encode()


def _unescaped(name: bytes) -> str:
    try:
        text = name.decode()
    except UnicodeDecodeError:
        raise ScramFailed("the client's user name is not UTF-8") from None
    if text.count("=") != text.count("=2C") + text.count("=3D"):
        raise ScramFailed("the client's user name is not escaped")
    return text.replace("=2C", ",").replace("=3D", "=")


def _attributes(message: bytes) -> list[tuple[bytes, bytes]]:
    """Split `a=value,b=value` into pairs. There is at least one."""
    if len(message) > MESSAGE_BYTES_MAX:
        raise ScramFailed(f"a message of {len(message)} bytes, where up to {MESSAGE_BYTES_MAX} are read")
    attributes: list[tuple[bytes, bytes]] = []
    for part in message.split(b","):
        kind, equals, value = part.partition(b"=")
        if not equals:
            raise ScramFailed("the message is not one of SCRAM")
        attributes.append((kind, value))
    return attributes


def _leading(attributes: Sequence[tuple[bytes, bytes]], *kinds: bytes) -> list[bytes]:
    """The values of the first attributes, which must be of these kinds and not empty."""
    leading = attributes[: len(kinds)]
    values = [value for _, value in leading]
    if [kind for kind, _ in leading] != [*kinds] or not all(values):
        raise ScramFailed("the message is not one of SCRAM")
    return values


def _decode(value: bytes) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        raise ScramFailed("the message holds what is no base64") from None
