"""How a client's connections are secured: with TLS, with SASL credentials, with both or with neither."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headwater.client.connection import BrokerConnection
    from headwater.client.security.tls import Tls

# https.* is about the server that issues tokens.
_PREFIXES = ("security.", "ssl.", "sasl.", "https.")


class Authenticator(Protocol):
    """Proves to a broker who the client is."""

    def authenticate(self, connection: "BrokerConnection") -> None:
        """Authenticate a new connection, before any other request is sent on it."""
        ...


@dataclass(frozen=True, slots=True)
class Security:
    tls: "Tls | None" = None
    credentials: Authenticator | None = None


PLAINTEXT = Security()


def about_security(settings: Mapping[str, str]) -> dict[str, str]:
    """Select the security settings (`security.*`, `ssl.*`, `sasl.*`, `https.*`) among those of a Kafka client."""
    return {name: value for name, value in settings.items() if name.startswith(_PREFIXES)}


def read_security(settings: Mapping[str, str]) -> Security:
    """Read the security settings of a Kafka client. Other settings are ignored; an unknown security setting is
    refused."""
    given = about_security(settings)
    if not given:
        return PLAINTEXT
    # Imported only if there are settings: most clients have none, and start-up time counts.
    from headwater.client.security import security_settings  # noqa: PLC0415

    return security_settings.read(given)
