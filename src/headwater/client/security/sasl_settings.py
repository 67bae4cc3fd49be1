"""Reads the settings `sasl.*` of Kafka's clients, with the names of Java and of librdkafka.

Law: passwords, secrets and tokens appear in no error.
"""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

from headwater.client.security.choices import choice, one_of, shown
from headwater.client.security.sasl import MECHANISMS, Credentials
from headwater.client.security.security import Authenticator
from headwater.errors import ConfigError
from headwater.security import jaas
from headwater.security.jaas import Login
from headwater.security.mechanisms import OAUTHBEARER, PLAIN
from headwater.security.scram_keys import MECHANISMS as SCRAM_MECHANISMS

MECHANISM = "sasl.mechanism"
# librdkafka accepts both names of the mechanism setting.
_MECHANISMS = "sasl.mechanisms"

_OAUTH = "sasl.oauthbearer."
_URL = f"{_OAUTH}token.endpoint.url"
# Kafka 4.1, librdkafka, and the option of the login module.
_CLIENT_ID = (f"{_OAUTH}client.credentials.client.id", f"{_OAUTH}client.id", "clientId")
_CLIENT_SECRET = (f"{_OAUTH}client.credentials.client.secret", f"{_OAUTH}client.secret", "clientSecret")
_SCOPE = (f"{_OAUTH}scope", "scope")
_EXTENSIONS = f"{_OAUTH}extensions"
_EXTENSION_OPTION = "extension_"
_METHOD = f"{_OAUTH}method"
_HEADER = f"{_OAUTH}header.urlencode"
_CONNECT_TIMEOUT, _READ_TIMEOUT = "sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms"
_CA = "https.ca.location"
# Java's classes that do what this client does anyway; older files name them with another package.
_JAVA_CLASSES = {
    "sasl.login.callback.handler.class": ("OAuthBearerLoginCallbackHandler",),
    f"{_OAUTH}jwt.retriever.class": ("DefaultJwtRetriever", "ClientCredentialsJwtRetriever", "FileJwtRetriever"),
}

_PASSWORD_SETTINGS = frozenset({"sasl.username", "sasl.password"})
_TOKEN_SETTINGS = frozenset(
    {
        *(_URL, _EXTENSIONS, _METHOD, _HEADER, _CONNECT_TIMEOUT, _READ_TIMEOUT, _CA),
        *(name for names in (_CLIENT_ID, _CLIENT_SECRET, _SCOPE) for name in names if "." in name),
        *_JAVA_CLASSES,
    }
)
SASL = frozenset({MECHANISM, _MECHANISMS, jaas.SETTING}) | _PASSWORD_SETTINGS | _TOKEN_SETTINGS
SECRETS_OF_SASL = frozenset({"sasl.password", jaas.SETTING, *_CLIENT_SECRET[:2]})

# The login modules of Java, their mechanisms and options.
_MODULES = {
    "PlainLoginModule": ((PLAIN,), {"username", "password"}),
    "ScramLoginModule": (tuple(SCRAM_MECHANISMS), {"username", "password", "tokenauth"}),
    "OAuthBearerLoginModule": ((OAUTHBEARER,), {"clientId", "clientSecret", "scope"}),
}


def read_credentials(given: Mapping[str, str]) -> Authenticator:
    one_of(given, MECHANISM, _MECHANISMS)
    named = MECHANISM if MECHANISM in given else _MECHANISMS
    if named not in given:
        raise ConfigError(f"{MECHANISM} is missing: one of {', '.join(MECHANISMS)}")
    mechanism = choice(given, named, MECHANISMS, "")
    useless = sorted(given.keys() & (_PASSWORD_SETTINGS if mechanism == OAUTHBEARER else _TOKEN_SETTINGS))
    if useless:
        raise ConfigError(f"{useless[0]} has no use with {MECHANISM}={mechanism}")
    for name in ("sasl.username", "sasl.password"):
        one_of(given, jaas.SETTING, name)
    login = _read_login(given[jaas.SETTING], mechanism) if jaas.SETTING in given else None
    return _token_credentials(given, login) if mechanism == OAUTHBEARER else _password(given, mechanism, login)


def _read_login(text: str, mechanism: str) -> Login:
    login = jaas.parse_jaas(text)
    if login.module not in _MODULES:
        raise ConfigError(
            f"{jaas.SETTING}: the login module is one of {', '.join(_MODULES)}, not {shown(login.module)}"
        )
    mechanisms, known = _MODULES[login.module]
    if mechanism not in mechanisms:
        raise ConfigError(f"{jaas.SETTING}: {login.module} is not for {MECHANISM}={mechanism}")
    unknown = sorted(
        name
        for name in login.options.keys() - known
        if mechanism != OAUTHBEARER or not name.startswith(_EXTENSION_OPTION)
    )
    if unknown:
        raise ConfigError(f"{jaas.SETTING}: the option {shown(unknown[0])} is not known to this client")
    return login


# -- passwords


def _password(given: Mapping[str, str], mechanism: str, login: Login | None) -> Credentials:
    if login is None:
        credentials = Credentials(mechanism, _present(given, "sasl.username"), _present(given, "sasl.password"))
    else:
        credentials = _from_login(login, mechanism)
    for text, name in ((credentials.username, "name"), (credentials.password, "password")):
        if "\0" in text or not _is_unicode(text):
            raise ConfigError(f"the {name} that SASL is given holds a character that cannot be sent")
    return credentials


def _is_unicode(text: str) -> bool:
    """False if the text contains lone surrogates, which stand for bytes that are not UTF-8."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _present(given: Mapping[str, str], name: str) -> str:
    if not given.get(name):
        raise ConfigError(f"{name} is missing, or give {jaas.SETTING}")
    return given[name]


def _from_login(login: Login, mechanism: str) -> Credentials:
    options = login.options
    for name in ("username", "password"):
        if not options.get(name):
            raise ConfigError(f"{jaas.SETTING}: the option {name} is missing")
    is_token = {"true": True, "false": False}.get(options.get("tokenauth", "false").lower())
    if is_token is None:
        raise ConfigError(f"{jaas.SETTING}: the option tokenauth is true or false")
    return Credentials(mechanism, options["username"], options["password"], is_token)


# -- tokens


def _token_credentials(given: Mapping[str, str], login: Login | None) -> Authenticator:
    # Imported only for this mechanism.
    from headwater.client.security.oauth import (  # noqa: PLC0415
        ClientCredentials,
        OAuthCredentials,
        TokenFile,
        TokenSource,
        checked_extensions,
        read_endpoint,
    )

    choice(given, _METHOD, ("oidc",), "oidc")
    for name, classes in _JAVA_CLASSES.items():
        if name in given and given[name].rpartition(".")[2] not in classes:
            raise ConfigError(f"{name} is one of {', '.join(classes)}, not {shown(given[name])}")
    if not given.get(_URL):
        raise ConfigError(f"{_URL} is missing: the issuer's https: URL, or the file: URL of a file with a token")
    url = read_endpoint(_URL, given[_URL])
    options = {} if login is None else login.options
    values = {**options, **given}
    source: TokenSource
    if url.scheme == "file":
        useless = sorted({*_CLIENT_ID, *_CLIENT_SECRET, *_SCOPE} & values.keys())
        if useless:
            raise ConfigError(f"{useless[0]} has no use with the file of a token ({_URL})")
        source = TokenFile(_URL, Path(unquote(url.path)))
    else:
        source = ClientCredentials(
            _URL,
            url.geturl(),
            _one_present(values, _CLIENT_ID),
            _one_present(values, _CLIENT_SECRET),
            _one_of_names(values, _SCOPE) or None,
            ca_file=given.get(_CA),
            connect_timeout_ms=_milliseconds(given, _CONNECT_TIMEOUT),
            read_timeout_ms=_milliseconds(given, _READ_TIMEOUT),
            is_header_encoded=choice(given, _HEADER, ("true", "false"), "false") == "true",
        )
    extensions = {
        name.removeprefix(_EXTENSION_OPTION): value
        for name, value in options.items()
        if name.startswith(_EXTENSION_OPTION)
    }
    for pair in given.get(_EXTENSIONS, "").split(","):
        name, _, value = pair.strip().partition("=")
        if name:
            extensions[name] = value
    return OAuthCredentials(source, checked_extensions(extensions))


def _one_of_names(values: Mapping[str, str], names: tuple[str, ...]) -> str:
    one_of(values, *names)
    return next((values[name] for name in names if name in values), "")


def _one_present(values: Mapping[str, str], names: tuple[str, ...]) -> str:
    value = _one_of_names(values, names)
    if not value or not value.isprintable():
        raise ConfigError(f"{names[0]} is missing, or {names[2]} in {jaas.SETTING}")
    return value


def _milliseconds(given: Mapping[str, str], name: str) -> int:
    from headwater.client.security.oauth import TIMEOUT_MS  # noqa: PLC0415

    text = given.get(name, str(TIMEOUT_MS))
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:10]) <= 3_600_000:
        raise ConfigError(f"{name} is a number of milliseconds, up to 3600000, not {shown(text)}")
    return int(text[:10])
