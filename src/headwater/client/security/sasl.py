"""SASL authentication of a connection: a user name, a password, and the mechanism's exchange with the broker.

Law: the password appears in no error, log or repr.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headwater.client.errors import AuthenticationFailed, Refused, UnsupportedApi, check
from headwater.client.security.scram import ScramExchange, ScramFailed
from headwater.errors import ErrorCode
from headwater.printable import printable
from headwater.protocol.messages.security.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from headwater.protocol.messages.security.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from headwater.client.connection import BrokerConnection

PLAIN = "PLAIN"
_SCRAM_DIGESTS: Mapping[str, str] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISMS = (PLAIN, *_SCRAM_DIGESTS)

# With version 0, the mechanism's messages are not wrapped in SaslAuthenticate requests.
_HANDSHAKE_VERSION_MIN = 1
# Long enough to be unique per exchange. Its URL-safe form has no comma, which would separate attributes.
_NONCE_BYTES = 24


@dataclass(frozen=True, slots=True)
class Credentials:
    mechanism: str
    username: str
    password: str = field(repr=False)

    def authenticate(self, connection: "BrokerConnection") -> None:
        """Authenticate a new connection, before any other request is sent on it."""
        self._agree(connection)
        try:
            if self.mechanism == PLAIN:
                _exchange(connection, b"\0".join((b"", self.username.encode(), self.password.encode())))
            else:
                self._prove(connection)
        except (Refused, ScramFailed) as error:
            raise AuthenticationFailed(
                f"the broker at {connection.endpoint}, user {self.username!r}: {error}"
            ) from None

    def _agree(self, connection: "BrokerConnection") -> None:
        broker = f"the broker at {connection.endpoint}"
        if connection.version(SaslHandshakeRequest) < _HANDSHAKE_VERSION_MIN:
            raise UnsupportedApi(f"{broker} speaks SASL in a form that is too old")
        answer = connection.call(SaslHandshakeRequest(mechanism=self.mechanism), SaslHandshakeResponse)
        if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            raise AuthenticationFailed(f"{broker} asks nobody who they are (security.protocol)")
        if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = printable(", ".join(answer.mechanisms)) or "none"
            raise AuthenticationFailed(f"{broker} does not take {self.mechanism}; it takes {offered} (sasl.mechanism)")
        check(answer.error_code, f"{broker} refused to agree on {self.mechanism}")

    def _prove(self, connection: "BrokerConnection") -> None:
        nonce = secrets.token_urlsafe(_NONCE_BYTES)
        scram = ScramExchange(_SCRAM_DIGESTS[self.mechanism], self.username, self.password, nonce)
        challenge = _exchange(connection, scram.first())
        scram.verify(_exchange(connection, scram.final(challenge)))


def _exchange(connection: "BrokerConnection", message: bytes) -> bytes:
    answer = connection.call(SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse)
    check(answer.error_code, "authentication", answer.error_message)
    return bytes(answer.auth_bytes)
