"""Reads the settings `sasl.*` of Kafka's clients.

Law: a password appears in no error.
"""

from collections.abc import Mapping

from headwater.client.security.choices import choice, one_of, shown
from headwater.client.security.sasl import MECHANISMS, Credentials
from headwater.errors import ConfigError
from headwater.security import jaas
from headwater.security.jaas import Login
from headwater.security.mechanisms import PLAIN
from headwater.security.scram_keys import MECHANISMS as SCRAM_MECHANISMS

MECHANISM = "sasl.mechanism"
# librdkafka accepts both names of the mechanism setting.
_MECHANISMS = "sasl.mechanisms"
SASL = frozenset({MECHANISM, _MECHANISMS, "sasl.username", "sasl.password", jaas.SETTING})

# The login modules of Java, their mechanisms and options.
_MODULES = {
    "PlainLoginModule": ((PLAIN,), {"username", "password"}),
    "ScramLoginModule": (tuple(SCRAM_MECHANISMS), {"username", "password", "tokenauth"}),
}


def read_credentials(given: Mapping[str, str]) -> Credentials:
    one_of(given, MECHANISM, _MECHANISMS)
    named = MECHANISM if MECHANISM in given else _MECHANISMS
    if named not in given:
        raise ConfigError(f"{MECHANISM} is missing: one of {', '.join(MECHANISMS)}")
    mechanism = choice(given, named, MECHANISMS, "")
    if jaas.SETTING in given:
        one_of(given, jaas.SETTING, "sasl.username")
        one_of(given, jaas.SETTING, "sasl.password")
        credentials = _from_login(_read_login(given[jaas.SETTING], mechanism), mechanism)
    else:
        credentials = Credentials(mechanism, _present(given, "sasl.username"), _present(given, "sasl.password"))
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


def _read_login(text: str, mechanism: str) -> Login:
    login = jaas.parse_jaas(text)
    if login.module not in _MODULES:
        raise ConfigError(
            f"{jaas.SETTING}: the login module is one of {', '.join(_MODULES)}, not {shown(login.module)}"
        )
    mechanisms, known = _MODULES[login.module]
    if mechanism not in mechanisms:
        raise ConfigError(f"{jaas.SETTING}: {login.module} is not for {MECHANISM}={mechanism}")
    unknown = sorted(login.options.keys() - known)
    if unknown:
        raise ConfigError(f"{jaas.SETTING}: the option {shown(unknown[0])} is not known to this client")
    return login


def _from_login(login: Login, mechanism: str) -> Credentials:
    options = login.options
    for name in ("username", "password"):
        if not options.get(name):
            raise ConfigError(f"{jaas.SETTING}: the option {name} is missing")
    is_token = {"true": True, "false": False}.get(options.get("tokenauth", "false").lower())
    if is_token is None:
        raise ConfigError(f"{jaas.SETTING}: the option tokenauth is true or false")
    return Credentials(mechanism, options["username"], options["password"], is_token)
