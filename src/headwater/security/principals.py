"""Who acts: the identity that authentication gives a client, in Kafka's notation `User:ann`."""

from typing import NamedTuple

from headwater.errors import ConfigError

USER = "User"


class Principal(NamedTuple):
    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


# Clients of listeners that do not authenticate.
ANONYMOUS = Principal(USER, "ANONYMOUS")


def user(name: str) -> Principal:
    return Principal(USER, name)


def parse_principal(text: str) -> Principal:
    """Read `User:ann`. The name may contain further colons, as distinguished names do."""
    kind, separator, name = text.strip().partition(":")
    if not separator or not kind or not name:
        raise ConfigError(f"{text[:100]!r} is not a principal: it has a type and a name, as in User:ann")
    return Principal(kind, name)
