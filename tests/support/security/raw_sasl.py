"""A raw client of a secured broker, for exchanges that no real client would have."""

import secrets
import ssl
from collections.abc import Callable
from typing import Any, TypeAlias

from headwater.protocol.messages.security.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from headwater.protocol.messages.security.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from headwater.security import oauth_bearer, plain
from headwater.security.scram import NONCE_BYTES, ScramClient
from headwater.security.scram_keys import MECHANISMS
from tests.support.kafka.raw_client import RawClient
from tests.support.security.logins import PLAIN, Login

# Of the user of the tests of single requests.
PASSWORD = "tea"


class RawSasl(RawClient):
    """Connects to the listener of a login, with TLS if that has it; `log_in` authenticates."""

    def __init__(self, login: Login, context: ssl.SSLContext | None = None) -> None:
        super().__init__(login)
        self.login = login
        self.session_lifetime_ms = 0
        if login.is_encrypted:
            try:
                self.socket = (context or login.context()).wrap_socket(self.socket, server_hostname="127.0.0.1")
            except BaseException:
                self.socket.close()
                raise

    def handshake(self, mechanism: str | None = None, version: int = 1) -> SaslHandshakeResponse:
        request = SaslHandshakeRequest(mechanism=self.login.mechanism if mechanism is None else mechanism)
        return self.ask(request, SaslHandshakeResponse, version)

    def authenticate(self, message: bytes) -> SaslAuthenticateResponse:
        return self.ask(SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse, 2)

    def log_in(self) -> SaslAuthenticateResponse:
        """Gives the last answer. Works again, to authenticate again."""
        told = self.handshake()
        assert told.error_code == 0, told
        login = self.login
        if login.token is not None:
            answer = self.authenticate(oauth_bearer.encode(login.token()))
        elif login.mechanism == PLAIN:
            answer = self.authenticate(plain.encode(login.user, login.password))
        else:
            answer = self.scram(login.user, login.password)
        self.session_lifetime_ms = answer.session_lifetime_ms
        return answer

    def scram_after_handshake(self, **options: Any) -> SaslAuthenticateResponse:
        assert self.handshake().error_code == 0
        return self.scram(self.login.user, self.login.password, **options)

    def scram(self, user: str, password: str, **options: Any) -> SaslAuthenticateResponse:
        digest = MECHANISMS[self.login.mechanism].digest
        client = ScramClient(digest, user, password, secrets.token_urlsafe(NONCE_BYTES), **options)
        challenge = self.authenticate(client.first())
        if challenge.error_code:
            return challenge
        answer = self.authenticate(client.final(bytes(challenge.auth_bytes)))
        if not answer.error_code:
            client.verify(bytes(answer.auth_bytes))
        return answer


# Connects as somebody, in a way that the arguments say.
Connect: TypeAlias = Callable[..., RawSasl]
