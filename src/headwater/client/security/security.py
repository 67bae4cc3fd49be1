"""How a client's connections are secured: TLS, a name and a password, both or neither."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.client.security.sasl import Credentials
    from headwater.client.security.tls import Tls

_PREFIXES = ("security.", "ssl.", "sasl.")


@dataclass(frozen=True, slots=True)
class Security:
    tls: "Tls | None" = None
    credentials: "Credentials | None" = None


PLAINTEXT = Security()


def about_security(settings: Mapping[str, str]) -> dict[str, str]:
    """Those settings of a Kafka client that say how its connections are secured."""
    return {name: value for name, value in settings.items() if name.startswith(_PREFIXES)}


def read_security(settings: Mapping[str, str]) -> Security:
    """From the settings of a Kafka client: those about security must be known, all others are left alone."""
    given = about_security(settings)
    if not given:
        return PLAINTEXT
    # Imported by those who have settings: most clients have none, and their start-up time counts.
    from headwater.client.security import security_settings  # noqa: PLC0415

    return security_settings.read(given)
