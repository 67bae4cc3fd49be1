"""The TLS of one listener as its settings and files describe it now: OpenSSL's context, and what we know of it.

Errors name the setting and the file, and say what is wrong with it.
"""

import logging
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from headwater.config.broker import BrokerConfig
from headwater.config.listener_overrides import override_name
from headwater.config.listeners import ListenerAddress
from headwater.config.settings.tls import (
    CLIENT_AUTH_NONE,
    CLIENT_AUTH_REQUESTED,
    CLIENT_AUTH_REQUIRED,
    SUITES_OF_TLS_1_2,
    SUITES_OF_TLS_1_3,
)
from headwater.errors import ConfigError
from headwater.listeners.tcp.tls.pem import Pem
from headwater.listeners.tcp.tls.transport import TlsTransport
from headwater.security.principal_mapping import PrincipalMapping

logger = logging.getLogger(__name__)

_VERIFY_MODES = {
    CLIENT_AUTH_NONE: ssl.CERT_NONE,
    CLIENT_AUTH_REQUESTED: ssl.CERT_OPTIONAL,
    CLIENT_AUTH_REQUIRED: ssl.CERT_REQUIRED,
}
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


class ServerContext(NamedTuple):
    context: ssl.SSLContext
    mapping: PrincipalMapping
    # Until when the listener's certificate is valid.
    not_after_s: int
    # All files that went into it.
    files: tuple[Path, ...]


def make_server_context(config: BrokerConfig, address: ListenerAddress, now_ms: int) -> ServerContext:
    """Raises ConfigError."""
    return _Builder(config, address, now_ms).build()


class _Builder:
    def __init__(self, config: BrokerConfig, address: ListenerAddress, now_ms: int) -> None:
        self._config = config.of_listener(address.name)
        self._overridden = {each.setting for each in config.listener_overrides if each.listener == address.name}
        self._address = address
        self._client_auth = config.client_auth_of(address)
        self._now_s = now_ms // 1000
        self._files: list[Path] = []

    def build(self) -> ServerContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.sslsocket_class = TlsTransport
        # A renegotiation costs us more than the client; compression tells secrets by length (CRIME).
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
        # Every connection has its client's certificate verified, and no session lives on from one to the next.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
        self._limit_versions(context)
        not_after_s = self._load_certificate(context)
        self._load_authorities(context)
        mapping = PrincipalMapping.parse(self._config.ssl_principal_mapping_rules)
        return ServerContext(context, mapping, not_after_s, tuple(self._files))

    def _name(self, setting: str) -> str:
        """The setting as it was set."""
        return override_name(self._address.name, setting) if setting in self._overridden else setting

    def _limit_versions(self, context: ssl.SSLContext) -> None:
        versions = {_VERSIONS[each] for each in self._config.ssl_enabled_protocols}
        suites = self._config.ssl_cipher_suites
        if suites:
            newest = set(suites) & set(SUITES_OF_TLS_1_3)
            if newest and len(newest) < len(SUITES_OF_TLS_1_3):
                raise ConfigError(
                    f"{self._name('ssl.cipher.suites')}: of the suites of TLS 1.3 either all "
                    f"({', '.join(SUITES_OF_TLS_1_3)}) or none can be named"
                )
            older = [SUITES_OF_TLS_1_2[each] for each in suites if each in SUITES_OF_TLS_1_2]
            if not newest:
                versions.discard(ssl.TLSVersion.TLSv1_3)
            if not older:
                versions.discard(ssl.TLSVersion.TLSv1_2)
        else:
            older = list(SUITES_OF_TLS_1_2.values())
        if not versions:
            raise ConfigError(
                f"{self._name('ssl.enabled.protocols')}: no version of TLS is left, with the suites of "
                f"{self._name('ssl.cipher.suites')}"
            )
        context.minimum_version, context.maximum_version = min(versions), max(versions)
        if older:
            context.set_ciphers(":".join(older))

    # -- the listener's certificate

    def _load_certificate(self, context: ssl.SSLContext) -> int:
        certificate, key = self._key_pair()
        if not key.has_key:
            raise key.refusal("there is no private key in it (-----BEGIN PRIVATE KEY-----)")
        if key.is_readable_by_others:
            logger.warning("%s: every user of this machine can read the private key (chmod o-r)", key.source)
        password = self._config.ssl_key_password
        if key.is_key_encrypted and password is None:
            raise key.refusal(f"the private key is encrypted, and {self._name('ssl.key.password')} is not set")
        validity = certificate.first_certificate()
        if validity.not_after_s <= self._now_s:
            raise certificate.refusal(f"the certificate expired on {shown_time(validity.not_after_s)}")
        if validity.not_before_s > self._now_s:
            raise certificate.refusal(f"the certificate is not valid before {shown_time(validity.not_before_s)}")
        with certificate.as_file() as certificate_file, key.as_file() as key_file:
            try:
                # Without a password OpenSSL would ask for one on the terminal.
                context.load_cert_chain(certificate_file, key_file, password or "")
            except ssl.SSLError as error:
                raise self._certificate_refusal(certificate, key, error) from None
        return validity.not_after_s

    def _key_pair(self) -> tuple[Pem, Pem]:
        config = self._config
        location, key_location = config.ssl_keystore_location, config.headwater_tls_key_location
        chain, key = config.ssl_keystore_certificate_chain, config.ssl_keystore_key
        if location is not None and (chain is not None or key is not None):
            raise ConfigError(
                f"{self._name('ssl.keystore.location')}: the certificate is also given by "
                "ssl.keystore.certificate.chain or ssl.keystore.key; set one of both"
            )
        if location is not None:
            certificate = self._read("ssl.keystore.location", location)
            return certificate, certificate if key_location is None else self._read(
                "headwater.tls.key.location", key_location
            )
        if chain is None or key is None:
            raise ConfigError(
                f"listeners: {self._address.name} speaks {self._address.protocol.value} and needs a certificate: "
                "ssl.keystore.location (a PEM file with certificate and key), or ssl.keystore.certificate.chain and "
                "ssl.keystore.key; `headwater tls init` makes one to try things out"
            )
        return (
            Pem.from_text(self._name("ssl.keystore.certificate.chain"), chain),
            Pem.from_text(self._name("ssl.keystore.key"), key),
        )

    def _certificate_refusal(self, certificate: Pem, key: Pem, error: ssl.SSLError) -> ConfigError:
        if error.reason == "KEY_VALUES_MISMATCH":
            return key.refusal("the private key does not belong to the certificate")
        if key.is_key_encrypted:
            return key.refusal(f"{self._name('ssl.key.password')} does not open the private key, or the key is damaged")
        where = certificate.source if key is certificate else f"{certificate.source}, {key.source}"
        return ConfigError(f"{where}: OpenSSL does not accept certificate and key: {reason_of(error)}")

    # -- the clients' certificates

    def _load_authorities(self, context: ssl.SSLContext) -> None:
        context.verify_mode = _VERIFY_MODES[self._client_auth]
        if self._client_auth == CLIENT_AUTH_NONE:
            return
        trusted = self._authorities()
        if not trusted.has_certificate:
            raise trusted.refusal("there is no certificate in it (-----BEGIN CERTIFICATE-----)")
        # As in Java, any certificate in the truststore is trusted, also that of an intermediate authority.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        if trusted.has_revocation_list:
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        with trusted.as_file() as file:
            try:
                context.load_verify_locations(file)
            except ssl.SSLError as error:
                raise trusted.refusal(f"OpenSSL does not accept it: {reason_of(error)}") from None

    def _authorities(self) -> Pem:
        location, text = self._config.ssl_truststore_location, self._config.ssl_truststore_certificates
        if location is not None and text is not None:
            raise ConfigError("ssl.truststore.location and ssl.truststore.certificates: set one of both")
        if location is not None:
            return self._read("ssl.truststore.location", location)
        if text is not None:
            return Pem.from_text(self._name("ssl.truststore.certificates"), text)
        raise ConfigError(
            f"{self._name('ssl.client.auth')}={self._client_auth}: set ssl.truststore.location to the authorities of "
            "the clients' certificates"
        )

    def _read(self, setting: str, location: str) -> Pem:
        path = Path(location)
        if path not in self._files:
            self._files.append(path)
        return Pem.from_file(self._name(setting), location)


def shown_time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def reason_of(error: OSError) -> str:
    """An error in words. OpenSSL's reasons are names in capitals, such as BAD_CERTIFICATE."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    named = error.reason if isinstance(error, ssl.SSLError) else None
    return named.replace("_", " ").lower() if named else error.strerror or str(error)
