"""Reads the settings of a schema registry's client, with Confluent's names.

`schema.registry.url`, `basic.auth.*`, `bearer.auth.*`, and `schema.registry.ssl.*` (as `ssl.*` of a Kafka client). The
first two kinds may have `schema.registry.` in front, too. Law: passwords and tokens appear in no error.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit

from headwater.client.security.choices import choice
from headwater.config.declaration import nearest
from headwater.errors import ConfigError
from headwater.printable import printable

if TYPE_CHECKING:
    from headwater.client.security.tls import Tls

PREFIX = "schema.registry."
URL = "schema.registry.url"
_BASIC_SOURCE, _USER_INFO = "basic.auth.credentials.source", "basic.auth.user.info"
_BEARER_SOURCE, _TOKEN = "bearer.auth.credentials.source", "bearer.auth.token"
_TIMEOUT = "request.timeout.ms"
_SOURCES = ("URL", "USER_INFO", "SASL_INHERIT")
_BARE = frozenset({_BASIC_SOURCE, _USER_INFO, _BEARER_SOURCE, _TOKEN})
SECRETS = frozenset({_USER_INFO, _TOKEN, PREFIX + _USER_INFO, PREFIX + _TOKEN, "schema.registry.ssl.key.password"})
TIMEOUT_MS = 30_000


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    # Asked in turn: the next one is for when one does not answer.
    urls: tuple[SplitResult, ...]
    # The value of the header Authorization.
    authorization: str | None = field(default=None, repr=False)
    tls: "Tls | None" = None
    timeout_ms: int = TIMEOUT_MS


def about_registry(settings: Mapping[str, str]) -> dict[str, str]:
    """Select the settings of a registry among those of a client."""
    return {name: value for name, value in settings.items() if name.startswith(PREFIX) or name in _BARE}


def read_registry(settings: Mapping[str, str]) -> RegistrySettings:
    """Read the settings of a client. Those that are not about a registry are ignored; an unknown one is refused."""
    given = {name.removeprefix(PREFIX): value for name, value in about_registry(settings).items()}
    text = given.pop("url", "")
    tls_settings = {name: given.pop(name) for name in list(given) if name.startswith("ssl.")}
    timeout_ms = _timeout_ms(given)
    _check_known(given)
    urls = tuple(read_url(each.strip()) for each in text.split(",") if each.strip())
    if not urls:
        raise ConfigError(f"{URL} is missing, such as http://127.0.0.1:8081")
    if tls_settings and all(url.scheme == "http" for url in urls):
        raise ConfigError(f"{PREFIX}{min(tls_settings)} has no use with {_shown(urls[0])}: that should be https")
    tls = _tls(tls_settings) if any(url.scheme == "https" for url in urls) else None
    return RegistrySettings(urls, _authorization(given, urls, settings), tls, timeout_ms)


def read_url(text: str) -> SplitResult:
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        url, port = urlsplit(""), None
    if url.scheme not in ("http", "https") or not url.hostname or port == 0 or url.query or url.fragment:
        raise ConfigError(f"{URL}: {printable(text.rpartition('@')[2])[:200]!r} is no address such as http://HOST:8081")
    return url


def shown_url(url: SplitResult) -> str:
    """Without the user and the password that may be in it."""
    return f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path.rstrip('/')}"


_shown = shown_url


def _timeout_ms(given: dict[str, str]) -> int:
    text = given.pop(_TIMEOUT, str(TIMEOUT_MS))
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= 3_600_000:
        raise ConfigError(f"{PREFIX}{_TIMEOUT} is a number of milliseconds up to 3600000, not {printable(text)[:40]!r}")
    return int(text)


def _check_known(given: Mapping[str, str]) -> None:
    for name in given:
        if name not in _BARE:
            meant = nearest(name, {"url", *_BARE})
            hint = f"; did you mean {PREFIX + meant!r}?" if meant else ""
            raise ConfigError(f"the setting {printable(PREFIX + name)[:200]!r} is not known to this client{hint}")


def _tls(given: Mapping[str, str]) -> "Tls":
    # Imported only if TLS is used: Python's ssl module is slow to import.
    from headwater.client.security import security_settings  # noqa: PLC0415

    try:
        tls = security_settings.read({"security.protocol": "SSL", **given}).tls
    except ConfigError as error:
        raise ConfigError(f"{PREFIX}ssl.*: {error}") from None
    assert tls is not None, "SSL is TLS"
    return tls


def _authorization(given: Mapping[str, str], urls: tuple[SplitResult, ...], settings: Mapping[str, str]) -> str | None:
    if _TOKEN in given:
        if _USER_INFO in given:
            raise ConfigError(f"{_USER_INFO} and {_TOKEN} exclude each other")
        choice(given, _BEARER_SOURCE, ("STATIC_TOKEN",), "STATIC_TOKEN")
        return f"Bearer {_header_text(_TOKEN, given[_TOKEN])}"
    if _BEARER_SOURCE in given:
        raise ConfigError(f"{_TOKEN} is missing: {_BEARER_SOURCE} is STATIC_TOKEN, and no other source is known here")
    user = urls[0].username
    default = "USER_INFO" if _USER_INFO in given else "URL"
    match choice(given, _BASIC_SOURCE, _SOURCES, default):
        case "USER_INFO":
            if ":" not in given.get(_USER_INFO, ""):
                raise ConfigError(f"{_USER_INFO} is USER:PASSWORD")
            return _basic(given[_USER_INFO])
        case "SASL_INHERIT":
            if "sasl.username" not in settings or "sasl.password" not in settings:
                raise ConfigError(f"{_BASIC_SOURCE}=SASL_INHERIT needs sasl.username and sasl.password")
            return _basic(f"{settings['sasl.username']}:{settings['sasl.password']}")
        case _:
            return None if user is None else _basic(f"{unquote(user)}:{unquote(urls[0].password or '')}")


def _basic(user_info: str) -> str:
    from base64 import b64encode  # noqa: PLC0415 (few registries ask)

    return f"Basic {b64encode(user_info.encode(errors='surrogateescape')).decode()}"


def _header_text(name: str, token: str) -> str:
    if not token or not token.isascii() or not token.isprintable():
        raise ConfigError(f"{name} is empty, or has characters that no token has")
    return token
