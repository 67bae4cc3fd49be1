"""SASL authentication of a connection: a user name, a password, and the mechanism's exchange with the broker. Tokens of
OAUTHBEARER are in `oauth.py`.

Law: the password appears in no error, log or repr.
"""

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headwater.client.errors import AuthenticationFailed, Refused, UnsupportedApi, check
from headwater.errors import ErrorCode
from headwater.printable import printable
from headwater.protocol.messages.security.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from headwater.protocol.messages.security.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from headwater.security import plain, scram, scram_keys
from headwater.security.mechanisms import OAUTHBEARER, PLAIN
from headwater.security.scram import ScramClient, ScramFailed

if TYPE_CHECKING:
    from headwater.client.connection import BrokerConnection

MECHANISMS = (PLAIN, *scram_keys.MECHANISMS, OAUTHBEARER)

# With version 0, the mechanism's messages are not wrapped in SaslAuthenticate requests.
_HANDSHAKE_VERSION_MIN = 1


@dataclass(frozen=True, slots=True)
class Credentials:
    mechanism: str
    username: str
    password: str = field(repr=False)
    # The name and password are the id and HMAC of a delegation token (KIP-48).
    is_token: bool = False

    def authenticate(self, connection: "BrokerConnection") -> None:
        """Authenticate a new connection, before any other request is sent on it."""
        agree(connection, self.mechanism)
        try:
            if self.mechanism == PLAIN:
                exchange(connection, plain.encode(self.username, self.password))
            else:
                self._prove(connection)
        except (Refused, ScramFailed) as error:
            raise AuthenticationFailed(
                f"the broker at {connection.endpoint}, user {self.username!r}: {error}"
            ) from None

    def _prove(self, connection: "BrokerConnection") -> None:
        # The URL-safe form has no comma, which would separate attributes.
        nonce = secrets.token_urlsafe(scram.NONCE_BYTES)
        digest = scram_keys.MECHANISMS[self.mechanism].digest
        client = ScramClient(digest, self.username, self.password, nonce, is_token=self.is_token)
        challenge = exchange(connection, client.first())
        client.verify(exchange(connection, client.final(challenge)))


def agree(connection: "BrokerConnection", mechanism: str) -> None:
    """Tell the broker the mechanism of the messages that follow."""
    broker = f"the broker at {connection.endpoint}"
    if connection.version(SaslHandshakeRequest) < _HANDSHAKE_VERSION_MIN:
        raise UnsupportedApi(f"{broker} speaks SASL in a form that is too old")
    answer = connection.call(SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse)
    if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise AuthenticationFailed(f"{broker} asks nobody who they are (security.protocol)")
    if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = printable(", ".join(answer.mechanisms)) or "none"
        raise AuthenticationFailed(f"{broker} does not take {mechanism}; it takes {offered} (sasl.mechanism)")
    check(answer.error_code, f"{broker} refused to agree on {mechanism}")


def exchange(connection: "BrokerConnection", message: bytes) -> bytes:
    answer = connection.call(SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse)
    check(answer.error_code, "authentication", answer.error_message)
    return bytes(answer.auth_bytes)
