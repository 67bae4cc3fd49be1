"""Requests to a registry and their answers: JSON over one connection that is kept."""

import http.client
import ssl
from collections.abc import Mapping
from typing import Any, Final, cast
from urllib.parse import SplitResult, quote, urlencode

import orjson

from headwater.client.errors import AuthenticationFailed, ClientError, ConnectionLost
from headwater.client.registry.settings import RegistrySettings, shown_url
from headwater.errors import ErrorCode
from headwater.printable import printable

_JSON: Final = "application/vnd.schemaregistry.v1+json"
_ANSWER_BYTES_MAX: Final = 64 << 20
_REDIRECTS: Final = (301, 302, 303, 307, 308)


class RegistryRefused(ClientError):
    """The registry answered with an error: `number` is Confluent's code, or the status of HTTP."""

    code = ErrorCode.INVALID_REQUEST

    def __init__(self, status: int, number: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.number = number
        # Whole: the messages of an incompatible schema are long.
        self.message = message

    @property
    def is_retriable(self) -> bool:
        return self.status >= 500


class Transport:
    """Asks the first address that answers, from the last one that did."""

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        self._current = 0
        self._connection: http.client.HTTPConnection | None = None
        self._context: ssl.SSLContext | None = None

    def ask(
        self, method: str, path: tuple[str, ...], query: Mapping[str, object] | None = None, body: object = None
    ) -> Any:
        """The JSON of the answer. `path` has the segments, unquoted."""
        target = "/" + "/".join(quote(segment, safe="") for segment in path)
        chosen = {name: _query_text(value) for name, value in (query or {}).items() if value is not None}
        if chosen:
            target += f"?{urlencode(chosen)}"
        content = None if body is None else orjson.dumps(body)
        for attempt in range(len(self._settings.urls)):
            url = self._settings.urls[self._current]
            try:
                return self._ask(url, method, target, content)
            except ConnectionLost:
                self.close()
                if attempt == len(self._settings.urls) - 1:
                    raise
                self._current = (self._current + 1) % len(self._settings.urls)
        raise AssertionError("there is an address")

    def _ask(self, url: SplitResult, method: str, target: str, content: bytes | None) -> Any:
        headers = {"Accept": f"{_JSON}, application/json"}
        if content is not None:
            headers["Content-Type"] = _JSON
        if self._settings.authorization is not None:
            headers["Authorization"] = self._settings.authorization
        is_kept = self._connection is not None
        try:
            status, answered = self._exchange(url, method, target, content, headers)
        except (http.client.RemoteDisconnected, ConnectionError) as error:
            if not is_kept:
                raise _lost(url, error) from None
            # A connection that was kept may have been closed meanwhile: every request may be sent twice.
            self.close()
            try:
                status, answered = self._exchange(url, method, target, content, headers)
            except (OSError, http.client.HTTPException) as again:
                raise _lost(url, again) from None
        except ssl.SSLCertVerificationError as error:
            raise AuthenticationFailed(
                f"the certificate of {shown_url(url)} is not to be trusted: {error.verify_message} "
                "(schema.registry.ssl.ca.location)"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            raise _lost(url, error) from None
        return _read(url, status, answered)

    def _exchange(
        self, url: SplitResult, method: str, target: str, content: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        connection = self._connection
        if connection is None:
            connection = self._connection = self._connect(url)
        try:
            connection.request(method, url.path.rstrip("/") + target, content, dict(headers))
            response = connection.getresponse()
            answered = response.read(_ANSWER_BYTES_MAX + 1)
        except BaseException:
            self.close()
            raise
        if len(answered) > _ANSWER_BYTES_MAX:
            self.close()
            raise ClientError(f"the answer of {shown_url(url)} has more than {_ANSWER_BYTES_MAX} bytes")
        return response.status, answered

    def _connect(self, url: SplitResult) -> http.client.HTTPConnection:
        assert url.hostname is not None, "it was checked"
        timeout_s = self._settings.timeout_ms / 1000
        if url.scheme == "http":
            return http.client.HTTPConnection(url.hostname, url.port, timeout=timeout_s)
        if self._context is None:
            assert self._settings.tls is not None, "there is an https address"
            self._context = self._settings.tls.context()
        return http.client.HTTPSConnection(url.hostname, url.port, timeout=timeout_s, context=self._context)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _query_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _lost(url: SplitResult, error: Exception) -> ConnectionLost:
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return ConnectionLost(f"no schema registry answers at {shown_url(url)}: {reason} (--registry, schema.registry.url)")


def _read(url: SplitResult, status: int, answered: bytes) -> Any:
    try:
        body = orjson.loads(answered) if answered else None
    except orjson.JSONDecodeError:
        body = None
    if 200 <= status < 300 and (body is not None or not answered):
        return body
    if status == 401:
        raise AuthenticationFailed(
            f"{shown_url(url)} asks who we are, or does not know this user: "
            "basic.auth.user.info=USER:PASSWORD, or bearer.auth.token, in a file for --client-config"
        )
    told = cast("dict[str, object]", body) if isinstance(body, dict) else {}
    message, number = told.get("message"), told.get("error_code")
    if isinstance(message, str):
        raise RegistryRefused(status, number if isinstance(number, int) else status, printable(message))
    hint = " (redirects are not followed)" if status in _REDIRECTS else ""
    raise RegistryRefused(status, status, f"{shown_url(url)} is no schema registry: it answers with {status}{hint}")
