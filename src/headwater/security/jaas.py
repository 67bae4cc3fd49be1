"""`sasl.jaas.config`, the setting in which Java clients get a user name and a password:

    org.apache.kafka.common.security.scram.ScramLoginModule required username="ann" password="tea";

Law: error messages never quote the text, because it contains the password.
"""

import re
from typing import NamedTuple

from headwater.errors import ConfigError

SETTING = "sasl.jaas.config"
TEXT_LENGTH_MAX = 65_536

_FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})
_TOKEN = re.compile(
    r"""\s*(?:
        "(?P<double>(?:[^"\\\n]|\\.)*)" | '(?P<single>(?:[^'\\\n]|\\.)*)'
        | (?P<word>[\w.$-]+) | (?P<sign>[=;])
    )\s*""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class Login(NamedTuple):
    """`module` is the login module's class name without its package."""

    module: str
    options: dict[str, str]


class _Token(NamedTuple):
    text: str
    is_sign: bool


def parse_jaas(text: str) -> Login:
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[0].is_sign or tokens[1].text.lower() not in _FLAGS:
        raise ConfigError(f"{SETTING} is not of the form MODULE required NAME=VALUE ...;")
    if tokens[-1] != _Token(";", is_sign=True):
        raise ConfigError(f"{SETTING} does not end in a semicolon")
    pairs = tokens[2:-1]
    if _Token(";", is_sign=True) in pairs:
        raise ConfigError(f"{SETTING} names more than one login module; one is what a client needs")
    options: dict[str, str] = {}
    for start in range(0, len(pairs), 3):
        match pairs[start : start + 3]:
            case [_Token(name, False), _Token("=", True), _Token(value, False)]:
                options[name] = value
            case _:
                raise ConfigError(f"{SETTING}: its option number {start // 3 + 1} is not of the form NAME=VALUE")
    return Login(tokens[0].text.rpartition(".")[2], options)


def _tokens(text: str) -> list[_Token]:
    if len(text) > TEXT_LENGTH_MAX:
        raise ConfigError(f"{SETTING} has {len(text)} characters, more than {TEXT_LENGTH_MAX}")
    tokens: list[_Token] = []
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise ConfigError(f"{SETTING}: what stands at character {position + 1} has no place there")
        position = found.end()
        kind = found.lastgroup
        assert kind is not None
        plain = found[kind]
        tokens.append(_Token(plain if kind in {"word", "sign"} else _unescaped(plain), kind == "sign"))
    return tokens


def _unescaped(text: str) -> str:
    """Resolve escapes as Java does here: they are those of C."""
    return _ESCAPE.sub(
        lambda found: chr(int(found[1], 8)) if found[1][0] in "01234567" else _unescaped_character(found[1]), text
    )


def _unescaped_character(character: str) -> str:
    return _ESCAPED.get(character, character)
