"""SASL OAUTHBEARER: the client shows a token that an issuer has signed, from a file or from the issuer's token endpoint
(RFC 6749, 4.4: client credentials).

Law: tokens and the client's secret appear in no error, log or repr.
"""

import base64
import json
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol
from urllib.parse import SplitResult, quote_plus, urlencode, urlsplit

from headwater.client.errors import AuthenticationFailed, ConnectionLost, Refused
from headwater.client.security.sasl import agree, exchange
from headwater.clock import Clock, SystemClock
from headwater.errors import ConfigError
from headwater.printable import printable
from headwater.security import oauth_bearer
from headwater.security.jwt import TOKEN_BYTES_MAX
from headwater.security.mechanisms import OAUTHBEARER

if TYPE_CHECKING:
    from http.client import HTTPConnection

    from headwater.client.connection import BrokerConnection

TIMEOUT_MS = 10_000
ANSWER_BYTES_MAX = TOKEN_BYTES_MAX + 16_384
# Of a token's life, after which a new one is asked for: Java's sasl.login.refresh.window.factor.
_REFRESH_FACTOR = 0.8
# The client's answer to the reason of a refusal (RFC 7628, 3.2.3).
_ACKNOWLEDGED = b"\1"


class TokenSource(Protocol):
    def token(self) -> str:
        """A token that is valid now."""
        ...

    def forget(self) -> None:
        """The broker has refused the token."""
        ...


@dataclass(frozen=True, slots=True)
class OAuthCredentials:
    source: TokenSource
    extensions: tuple[tuple[str, str], ...] = ()

    def authenticate(self, connection: "BrokerConnection") -> None:
        """Authenticate a new connection, before any other request is sent on it."""
        message = oauth_bearer.encode(self.source.token(), dict(self.extensions))
        agree(connection, OAUTHBEARER)
        try:
            answer = exchange(connection, message)
            if answer:
                # The broker says why, and then refuses.
                with suppress(Refused):
                    exchange(connection, _ACKNOWLEDGED)
                raise self._refused(connection, oauth_bearer.error_status(answer) or "it says no reason")
        except Refused as error:
            raise self._refused(connection, str(error)) from None

    def _refused(self, connection: "BrokerConnection", reason: str) -> AuthenticationFailed:
        self.source.forget()
        return AuthenticationFailed(
            f"the broker at {connection.endpoint} does not take our token: {printable(reason)[:200]}"
        )


@dataclass(frozen=True, slots=True)
class TokenFile:
    """Another process renews the file, so it is read for each connection."""

    setting: str
    file: Path

    def token(self) -> str:
        try:
            with self.file.open("rb") as opened:
                content = opened.read(TOKEN_BYTES_MAX + 1)
        except OSError as error:
            raise ConfigError(f"{self.setting}: {self.file}: {error.strerror}") from None
        return _checked(content, f"{self.setting}: {self.file}")

    def forget(self) -> None:
        pass


class _Kept(NamedTuple):
    token: str
    refresh_ms: int


@dataclass(slots=True)
class ClientCredentials:
    """Asks the token endpoint, and keeps the token for most of its life."""

    setting: str
    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    # The authorities to trust at the endpoint; None for those of the operating system.
    ca_file: str | None = None
    connect_timeout_ms: int = TIMEOUT_MS
    read_timeout_ms: int = TIMEOUT_MS
    is_header_encoded: bool = False
    clock: Clock = field(default_factory=SystemClock, repr=False, compare=False)
    _kept: _Kept | None = field(default=None, init=False, repr=False, compare=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)

    def token(self) -> str:
        with self._lock:
            now_ms = self.clock.monotonic_ms()
            if self._kept is None or self._kept.refresh_ms <= now_ms:
                token, lifetime_s = self._ask()
                self._kept = _Kept(token, now_ms + int(lifetime_s * 1000 * _REFRESH_FACTOR))
            return self._kept.token

    def forget(self) -> None:
        self._kept = None

    def _ask(self) -> tuple[str, float]:
        # Late import: takes longer than all else here.
        from http.client import HTTPException  # noqa: PLC0415

        url = urlsplit(self.url)
        connection = self._connect(url)
        try:
            connection.connect()
            if connection.sock is not None:
                connection.sock.settimeout(self.read_timeout_ms / 1000)
            body = {"grant_type": "client_credentials"} | ({} if self.scope is None else {"scope": self.scope})
            path = url.path or "/"
            connection.request(
                "POST",
                f"{path}?{url.query}" if url.query else path,
                urlencode(body),
                {
                    "Accept": "application/json",
                    "Authorization": self._authorization(),
                    "Content-Type": "application/x-www-form-urlencoded",
                },
            )
            with connection.getresponse() as response:
                status, content = response.status, response.read(ANSWER_BYTES_MAX + 1)
        except (OSError, HTTPException) as error:
            # A TLS error's text names the certificate's problem. No text of the library has what we sent.
            reason = getattr(error, "verify_message", None) or getattr(error, "strerror", None) or error
            hint = " (https.ca.location)" if hasattr(error, "verify_message") else ""
            raise ConnectionLost(f"{self.setting}: {self.url}: {printable(str(reason))[:200]}{hint}") from None
        finally:
            connection.close()
        return self._read(status, content)

    def _connect(self, url: SplitResult) -> "HTTPConnection":
        from http.client import HTTPConnection, HTTPSConnection  # noqa: PLC0415

        assert url.hostname is not None, "checked with the settings"
        timeout_s = self.connect_timeout_ms / 1000
        if url.scheme == "http":
            return HTTPConnection(url.hostname, url.port, timeout=timeout_s)
        import ssl  # noqa: PLC0415

        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:
            raise ConfigError(f"https.ca.location: {self.ca_file}: {error.strerror or error}") from None
        return HTTPSConnection(url.hostname, url.port, timeout=timeout_s, context=context)

    def _authorization(self) -> str:
        encode = quote_plus if self.is_header_encoded else str
        pair = f"{encode(self.client_id)}:{encode(self.client_secret)}"
        return f"Basic {base64.b64encode(pair.encode()).decode()}"

    def _read(self, status: int, content: bytes) -> tuple[str, float]:
        where = f"{self.setting}: {self.url}"
        try:
            answer = json.loads(content) if len(content) <= ANSWER_BYTES_MAX else None
        except (ValueError, RecursionError):
            answer = None
        if status != 200:
            match answer:
                case {"error": str(error)}:
                    reason = f", {printable(error)[:100]!r}"
                case _:
                    reason = ""
            text = f"{where}: the server answers with status {status}{reason}"
            # The server may recover; that the client is unknown stays as it is.
            raise ConnectionLost(text) if status >= 500 else AuthenticationFailed(text)
        match answer:
            case {"access_token": str(token), "expires_in": int() | float() as lifetime_s} if lifetime_s > 0:
                return _checked(token.encode(errors="replace"), where), lifetime_s
            case {"access_token": str(token)}:
                # The server may leave out how long it is valid: then it is asked again each time.
                return _checked(token.encode(errors="replace"), where), 0.0
            case _:
                raise AuthenticationFailed(f"{where}: the server's answer has no access_token")


def _checked(content: bytes, where: str) -> str:
    token = content.decode(errors="replace").strip()
    if not token or len(content) > TOKEN_BYTES_MAX or not token.isascii():
        raise ConfigError(f"{where}: there is no token in it, of up to {TOKEN_BYTES_MAX} bytes")
    return token


def read_endpoint(setting: str, text: str) -> SplitResult:
    """The URL of a token endpoint, or of a file with a token. Raises ConfigError."""
    try:
        url = urlsplit(text)
        is_plain = url.scheme == "http"
        is_there = (url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0) or (
            url[:2] == ("file", "") and bool(url.path)
        )
    except ValueError:
        url, is_plain, is_there = SplitResult("", "", "", "", ""), False, False
    if not is_there or url.username is not None:
        raise ConfigError(f"{setting} is neither https://HOST/PATH nor file:///PATH")
    if is_plain and url.hostname not in ("localhost", "127.0.0.1", "::1"):
        raise ConfigError(f"{setting}: the client's secret would be sent in clear text: https:// is needed")
    return url


def checked_extensions(extensions: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Check extensions, and make them hashable."""
    oauth_bearer.encode("token", extensions)
    return tuple(sorted(extensions.items()))
