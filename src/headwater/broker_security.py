"""The security of a broker for tests: its certificates and users, and what clients need to connect."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.broker.broker import Broker
from headwater.config.listeners import SecurityProtocol
from headwater.errors import ConfigError
from headwater.security.mechanisms import PLAIN, SCRAM_SHA_256, SCRAM_SHA_512

if TYPE_CHECKING:
    from headwater.certificate_authority import CertificateAuthority

_MECHANISMS = (SCRAM_SHA_256, SCRAM_SHA_512, PLAIN)
_DAYS = 30
# The user of a certificate is its common name alone.
_MAPPING_RULES = "RULE:^CN=(.*)$/$1/,DEFAULT"


@dataclass(frozen=True, slots=True)
class BrokerSecurity:
    """How clients of a broker prove who they are. Names are Kafka's.

    `users` are names with passwords; the first is the default of `client_settings`. With `client_certificates` each
    has a certificate, too, and clients must show one. With `authorizer` rules are enforced, and the first user may do
    everything.
    """

    protocol: str = "SASL_SSL"
    mechanism: str = SCRAM_SHA_512
    users: Mapping[str, str] = field(default_factory=lambda: {"ann": "secret-of-ann"}, repr=False)
    client_certificates: bool = False
    authorizer: bool = False


class SecuredClients:
    def __init__(self, security: BrokerSecurity) -> None:
        if security.protocol not in SecurityProtocol.__members__:
            known = ", ".join(SecurityProtocol.__members__)
            raise ConfigError(f"security is one of {known}, not {security.protocol!r}")
        if security.mechanism not in _MECHANISMS:
            raise ConfigError(f"the mechanism is one of {', '.join(_MECHANISMS)}, not {security.mechanism!r}")
        if not security.users:
            raise ConfigError("security has no users")
        self._security = security
        self._protocol = SecurityProtocol[security.protocol]
        if security.client_certificates and not self._protocol.is_encrypted:
            raise ConfigError(f"clients show certificates where there is TLS, not with {security.protocol}")
        self._directory: tempfile.TemporaryDirectory[str] | None = None

    # -- the broker's side

    @cached_property
    def broker_settings(self) -> Mapping[str, str]:
        security = self._security
        # Tests should not wait, not even for a refusal.
        settings = {
            "listeners": f"{security.protocol}://127.0.0.1:0",
            "connection.failed.authentication.delay.ms": "0",
            "sasl.enabled.mechanisms": ",".join(_MECHANISMS),
        }
        if self._protocol.is_encrypted:
            settings["ssl.keystore.location"] = str(self._authority.issue_server((), _DAYS))
        if security.client_certificates:
            listener = f"listener.name.{security.protocol.lower()}."
            settings |= {
                "ssl.truststore.location": str(self.ca_file),
                f"{listener}ssl.client.auth": "required",
                "ssl.principal.mapping.rules": _MAPPING_RULES,
            }
        if security.authorizer:
            settings["authorizer.class.name"] = "acl"
        return settings

    @property
    def is_encrypted(self) -> bool:
        return self._protocol.is_encrypted

    @property
    def http_settings(self) -> Mapping[str, str]:
        """The same security for clients of HTTP."""
        name = "HTTPS" if self.is_encrypted else "HTTP"
        settings = {"headwater.http.listeners": f"{name}://127.0.0.1:0"}
        if self._protocol.is_sasl:
            settings["headwater.http.authentication"] = "basic"
        if self._security.client_certificates:
            settings[f"listener.name.{name.lower()}.ssl.client.auth"] = "required"
        return settings

    async def add_users(self, broker: Broker) -> None:
        if self._security.authorizer:
            await broker.access.make_administrator(next(iter(self._security.users)))
        if self._protocol.is_sasl:
            for name, password in self._security.users.items():
                await broker.access.users.set_password(name, password)

    def clean_up(self) -> None:
        if self._directory is not None:
            self._directory.cleanup()
            self._directory = None

    # -- the clients' side

    @property
    def ca_file(self) -> Path:
        assert self._protocol.is_encrypted, f"a broker with {self._protocol.value} has no certificate"
        return self._authority.certificate

    def settings(self, user: str | None) -> dict[str, str]:
        name, password = self._login(user)
        settings = {"security.protocol": self._protocol.value}
        if self._protocol.is_encrypted:
            settings["ssl.ca.location"] = str(self.ca_file)
        if self._security.client_certificates:
            file = str(self._identity(name))
            settings |= {"ssl.certificate.location": file, "ssl.key.location": file}
        if self._protocol.is_sasl:
            mechanism = self._security.mechanism
            settings |= {"sasl.mechanism": mechanism, "sasl.username": name, "sasl.password": password}
        return settings

    def aiokafka_settings(self, user: str | None) -> dict[str, Any]:
        import ssl  # noqa: PLC0415 (takes longer to import than all else here)

        settings = self._python_settings(user)
        if self._protocol.is_encrypted:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self._security.client_certificates:
                context.load_cert_chain(self._identity(self._login(user)[0]))
            settings["ssl_context"] = context
        return settings

    def kafka_python_settings(self, user: str | None) -> dict[str, Any]:
        settings = self._python_settings(user)
        if self._protocol.is_encrypted:
            settings["ssl_cafile"] = str(self.ca_file)
        if self._security.client_certificates:
            file = str(self._identity(self._login(user)[0]))
            settings |= {"ssl_certfile": file, "ssl_keyfile": file}
        return settings

    def _python_settings(self, user: str | None) -> dict[str, Any]:
        name, password = self._login(user)
        settings: dict[str, Any] = {"security_protocol": self._protocol.value}
        if self._protocol.is_sasl:
            settings |= {
                "sasl_mechanism": self._security.mechanism,
                "sasl_plain_username": name,
                "sasl_plain_password": password,
            }
        return settings

    def _login(self, user: str | None) -> tuple[str, str]:
        users = self._security.users
        name = next(iter(users)) if user is None else user
        if name not in users:
            raise ConfigError(f"the broker has no user {name!r} (BrokerSecurity.users)")
        return name, users[name]

    def _identity(self, name: str) -> Path:
        file = self._authority.certificate.with_name(f"client-{name}.pem")
        return file if file.exists() else self._authority.issue_client(name, _DAYS)

    @cached_property
    def _authority(self) -> "CertificateAuthority":
        try:
            from headwater.certificate_authority import CertificateAuthority  # noqa: PLC0415
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != "cryptography":
                raise
            raise ConfigError(
                "certificates need the package `cryptography`: pip install 'headwater[security]'"
            ) from None
        self._directory = tempfile.TemporaryDirectory(prefix="headwater-tls-")
        authority = CertificateAuthority(Path(self._directory.name))
        authority.create()
        return authority
