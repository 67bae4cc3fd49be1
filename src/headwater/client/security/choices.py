"""What reading TLS and SASL settings has in common."""

from collections.abc import Mapping

from headwater.errors import ConfigError
from headwater.printable import printable


def choice(given: Mapping[str, str], name: str, choices: tuple[str, ...], default: str) -> str:
    """Read one of `choices`, ignoring case as Kafka does."""
    text = given.get(name, default).strip().upper()
    for each in choices:
        if each.upper() == text:
            return each
    raise ConfigError(f"{name} is one of {', '.join(choices)}, not {shown(given[name])}")


def one_of(given: Mapping[str, str], *names: str) -> None:
    found = [name for name in names if name in given]
    if len(found) > 1:
        raise ConfigError(f"{found[0]} and {found[1]} say the same thing: give one of them")


def shown(value: str) -> str:
    return repr(printable(value)[:100])
