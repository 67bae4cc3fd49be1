"""The client side of SCRAM (RFC 5802, RFC 7677): the client proves the password without sending it, and so does the
server.

Pure: messages in, messages out. The server's messages are untrusted until its signature is verified.
"""

import base64
import binascii
import hashlib
import hmac
from typing import NamedTuple

from headwater.errors import ErrorCode, HeadwaterError
from headwater.printable import printable

# Kafka's own bounds are 4096 and 16384. With fewer iterations, an eavesdropper could guess the password too cheaply.
# The upper bound here limits what a hostile server can make us compute to about a second.
ITERATIONS_MIN = 4_096
ITERATIONS_MAX = 1_000_000
MESSAGE_BYTES_MAX = 4_096

# No channel binding and no authorization identity: Kafka supports neither.
_GS2_HEADER = b"n,,"
_ERROR_LENGTH_MAX = 200


class ScramFailed(HeadwaterError):
    """The server refused us, or sent a message that no server with the password would send."""

    code = ErrorCode.SASL_AUTHENTICATION_FAILED


class _Challenge(NamedTuple):
    nonce: bytes
    salt: bytes
    iterations: int


class ScramExchange:
    """Call `first()`, then `final()` with the server's first answer, then `verify()` with its second one. Use a nonce
    for one exchange only."""

    def __init__(self, digest: str, username: str, password: str, nonce: str) -> None:
        self._digest = digest
        # Without the normalization (SASLprep) that the RFC requires: Kafka's clients and brokers leave it out, too.
        self._password = password.encode()
        self._nonce = nonce.encode()
        self._first_bare = b"n=%s,r=%s" % (_escaped(username), self._nonce)
        self._server_signature: bytes | None = None

    def first(self) -> bytes:
        return _GS2_HEADER + self._first_bare

    def final(self, server_first: bytes) -> bytes:
        challenge = self._read_challenge(server_first)
        salted = hashlib.pbkdf2_hmac(self._digest, self._password, challenge.salt, challenge.iterations)
        without_proof = b"c=%s,r=%s" % (base64.b64encode(_GS2_HEADER), challenge.nonce)
        signed = b",".join((self._first_bare, server_first, without_proof))
        client_key = self._hmac(salted, b"Client Key")
        signature = self._hmac(hashlib.new(self._digest, client_key).digest(), signed)
        proof = bytes(key ^ mask for key, mask in zip(client_key, signature, strict=True))
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
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

    def _read_challenge(self, server_first: bytes) -> _Challenge:
        attributes = _attributes(server_first)
        if [kind for kind, _ in attributes[:3]] != [b"r", b"s", b"i"]:
            raise ScramFailed("the server's first message is not one of SCRAM")
        nonce, salt, iterations = (value for _, value in attributes[:3])
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise ScramFailed("the server's nonce does not extend ours")
        # Check the length before converting to a number. `isdigit` of bytes accepts ASCII digits only.
        if not iterations.isdigit() or len(iterations) > 9:
            raise ScramFailed("the server asks for a number of iterations that is none")
        if not ITERATIONS_MIN <= int(iterations) <= ITERATIONS_MAX:
            raise ScramFailed(
                f"the server asks for {int(iterations)} iterations, where {ITERATIONS_MIN} to {ITERATIONS_MAX} are done"
            )
        return _Challenge(nonce, _decode(salt), int(iterations))

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._digest)


def _escaped(username: str) -> bytes:
    return username.replace("=", "=3D").replace(",", "=2C").encode()


def _attributes(message: bytes) -> list[tuple[bytes, bytes]]:
    """Split `a=value,b=value` into pairs. There is at least one."""
    if len(message) > MESSAGE_BYTES_MAX:
        raise ScramFailed(f"a message of {len(message)} bytes, where up to {MESSAGE_BYTES_MAX} are read")
    attributes: list[tuple[bytes, bytes]] = []
    for part in message.split(b","):
        kind, equals, value = part.partition(b"=")
        if not equals:
            raise ScramFailed("the server's message is not one of SCRAM")
        attributes.append((kind, value))
    return attributes


def _decode(value: bytes) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        raise ScramFailed("the server's message holds what is no base64") from None
