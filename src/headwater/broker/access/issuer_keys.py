"""The public keys of the issuer of tokens, read from a file or an https: URL and read again from time to time.

Where keys cannot be read, the last good ones stay in force. Reading is bounded in size and time, follows no redirect,
and happens in a thread.
"""

import asyncio
import logging
from contextlib import suppress
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from headwater.clock import Clock
from headwater.config.broker import BrokerConfig
from headwater.errors import ConfigError
from headwater.security import jwks
from headwater.security.jwks import KeySet
from headwater.security.jwt import TokenRules, UnknownKey, ValidToken, validate

logger = logging.getLogger(__name__)

SETTING = "sasl.oauthbearer.jwks.endpoint.url"
BYTES_MAX = 1 << 20
TIMEOUT_MS = 10_000
# Between two readings that unknown key ids have asked for: clients choose the ids.
UNKNOWN_KEY_INTERVAL_MS = 10_000


class IssuerKeys:
    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        assert config.sasl_oauthbearer_jwks_endpoint_url is not None, "checked with the settings"
        self._url = urlsplit(config.sasl_oauthbearer_jwks_endpoint_url)
        self._config = config
        self._clock = clock
        self._rules = TokenRules(
            issuer=config.sasl_oauthbearer_expected_issuer,
            audiences=config.sasl_oauthbearer_expected_audience,
            clock_skew_ms=config.sasl_oauthbearer_clock_skew_seconds * 1000,
            principal_claim=config.sasl_oauthbearer_sub_claim_name,
            scope_claim=config.sasl_oauthbearer_scope_claim_name,
        )
        self._keys = KeySet([])
        self._is_wanted = asyncio.Event()
        self._wanted_ms = -UNKNOWN_KEY_INTERVAL_MS
        self._reading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Read the keys. A file that has none is refused; a server may just be down, and is asked again."""
        try:
            await self.read()
        except ConfigError as error:
            if self._url.scheme == "file":
                raise
            logger.error("%s; tokens are refused until it can be read", error)
        self._reading = asyncio.create_task(self._keep_fresh())

    def stop(self) -> None:
        if self._reading is not None:
            self._reading.cancel()

    def validate(self, token: str) -> ValidToken:
        """Raises InvalidToken."""
        try:
            return validate(token, self._rules, self._keys, self._clock.now_ms())
        except UnknownKey:
            now_ms = self._clock.monotonic_ms()
            if now_ms - self._wanted_ms >= UNKNOWN_KEY_INTERVAL_MS:
                self._wanted_ms = now_ms
                self._is_wanted.set()
            raise

    async def read(self) -> None:
        try:
            self._keys = await asyncio.to_thread(lambda: jwks.parse(self._fetch()))
        except ImportError:
            raise ConfigError(
                "OAUTHBEARER needs the package cryptography: install headwater[security] (sasl.enabled.mechanisms)"
            ) from None
        except (ConfigError, OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(f"{SETTING}: {self._url.geturl()}: {reason}") from None

    async def _keep_fresh(self) -> None:
        config = self._config
        first_backoff_ms = config.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms
        backoff_ms = first_backoff_ms if not self._keys.keys else None
        while True:
            wait_ms = config.sasl_oauthbearer_jwks_endpoint_refresh_ms if backoff_ms is None else backoff_ms
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_ms / 1000):
                    await self._is_wanted.wait()
            self._is_wanted.clear()
            try:
                await self.read()
                backoff_ms = None
            except ConfigError as error:
                longest_ms = config.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms
                backoff_ms = min(2 * (backoff_ms or first_backoff_ms), longest_ms)
                logger.warning("%s; the keys that are known stay in force", error)

    def _fetch(self) -> bytes:
        if self._url.scheme == "file":
            with Path(unquote(self._url.path)).open("rb") as opened:
                content = opened.read(BYTES_MAX + 1)
        else:
            content = _download(self._url, self._clock)
        if len(content) > BYTES_MAX:
            raise ConfigError(f"more than {BYTES_MAX} bytes")
        return content


def _download(url: SplitResult, clock: Clock) -> bytes:
    # Late import: brings ssl along.
    from http.client import HTTPException, HTTPSConnection  # noqa: PLC0415

    assert url.hostname is not None, "checked with the settings"
    deadline_ms = clock.monotonic_ms() + TIMEOUT_MS
    connection = HTTPSConnection(url.hostname, url.port, timeout=TIMEOUT_MS / 1000)
    try:
        path = url.path or "/"
        connection.request("GET", f"{path}?{url.query}" if url.query else path, headers={"Accept": "application/json"})
        with connection.getresponse() as response:
            if response.status != 200:
                raise ConfigError(f"the server answers with status {response.status}")
            content = bytearray()
            # As much as has arrived, so that a slow server does not hold the thread for longer than the time-out.
            while len(content) <= BYTES_MAX and (part := response.read1(65_536)):
                content += part
                if clock.monotonic_ms() > deadline_ms:
                    raise ConfigError(f"the server takes longer than {TIMEOUT_MS} ms")
            return bytes(content)
    except HTTPException as error:
        raise ConfigError(f"the server's answer is not HTTP: {error!r}") from None
    finally:
        connection.close()
