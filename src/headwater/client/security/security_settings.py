"""Reads the settings `security.*`, `ssl.*` and `sasl.*` of Kafka's clients, with the names of Java and of librdkafka.

Law: a setting that is unknown, or that has no effect because of another one, is refused by its name: nobody should
believe that a connection is safer than it is.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headwater.client.security.choices import choice, one_of, shown
from headwater.client.security.sasl_settings import SASL, SECRETS_OF_SASL, read_credentials
from headwater.client.security.security import Security
from headwater.config.declaration import nearest
from headwater.errors import ConfigError
from headwater.printable import printable

if TYPE_CHECKING:
    from ssl import TLSVersion

    from headwater.client.security.tls import Pem, Tls

PROTOCOL = "security.protocol"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_TLS = frozenset(
    {
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.truststore.location",
        "ssl.truststore.type",
        "ssl.truststore.certificates",
        "ssl.keystore.location",
        "ssl.keystore.type",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.endpoint.identification.algorithm",
        "ssl.protocol",
        "ssl.enabled.protocols",
    }
)
# These hold a secret itself, not the name of a file: nobody should type them where others can read them.
SECRETS = SECRETS_OF_SASL | {"ssl.key.password", "ssl.keystore.key"}
_TLS_NAMES = ("TLS", "TLSv1.2", "TLSv1.3")


def read(given: Mapping[str, str]) -> Security:
    """Read the settings, all of which must be known security settings."""
    for name in given:
        _check_known(name)
    protocol = choice(given, PROTOCOL, PROTOCOLS, "PLAINTEXT")
    _check_useful(given, protocol)
    tls = _read_tls(given) if protocol.endswith("SSL") else None
    return Security(tls, read_credentials(given) if protocol.startswith("SASL_") else None)


def _check_known(name: str) -> None:
    known = {PROTOCOL, *_TLS, *SASL}
    if name in known:
        return
    if name in {"ssl.truststore.password", "ssl.keystore.password"}:
        raise ConfigError(f"{name} has no meaning for PEM, which is the one kind of store that is read")
    meant = nearest(name, known)
    hint = f"; did you mean {meant!r}?" if meant else ""
    raise ConfigError(f"the setting {printable(name)[:200]!r} is not known to this client{hint}")


def _check_useful(given: Mapping[str, str], protocol: str) -> None:
    for names, is_used, with_it in (
        (_TLS, protocol.endswith("SSL"), "SSL or SASL_SSL"),
        (SASL, protocol.startswith("SASL_"), "SASL_SSL or SASL_PLAINTEXT"),
    ):
        useless = sorted(names & given.keys())
        if useless and not is_used:
            raise ConfigError(f"{useless[0]} has no use with {PROTOCOL}={protocol}: that should be {with_it}")


# -- TLS


def _read_tls(given: Mapping[str, str]) -> "Tls":
    # Imported only if TLS is used: Python's ssl module takes longer to import than everything else here.
    from headwater.client.security.tls import Tls  # noqa: PLC0415

    choice(given, "ssl.protocol", _TLS_NAMES, "TLS")
    certificate, key = _read_identity(given)
    if "ssl.key.password" in given and certificate is None:
        raise ConfigError(
            "ssl.key.password is given, and no key: ssl.key.location, or ssl.keystore.location, is missing"
        )
    versions = _read_versions(given)
    return Tls(
        trusted=_read_trusted(given),
        certificate=certificate,
        key=key,
        key_password=given.get("ssl.key.password"),
        is_host_checked=_is_host_checked(given),
        version_min=min(versions),
        version_max=max(versions),
    )


def _read_trusted(given: Mapping[str, str]) -> "Pem | None":
    one_of(given, "ssl.ca.location", "ssl.truststore.location", "ssl.truststore.certificates")
    _check_store(given, "ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.certificates")
    return (
        _in_file(given, "ssl.ca.location")
        or _in_file(given, "ssl.truststore.location")
        or _in_text(given, "ssl.truststore.certificates")
    )


def _read_identity(given: Mapping[str, str]) -> "tuple[Pem | None, Pem | None]":
    """Read the client's certificate, and its key if that is not in the same file."""
    one_of(given, "ssl.certificate.location", "ssl.keystore.location", "ssl.keystore.certificate.chain")
    one_of(given, "ssl.key.location", "ssl.keystore.location", "ssl.keystore.key")
    _check_store(given, "ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.key")
    for key, certificate in (
        ("ssl.key.location", "ssl.certificate.location"),
        ("ssl.keystore.key", "ssl.keystore.certificate.chain"),
    ):
        if key in given and certificate not in given:
            raise ConfigError(f"{key} is given without {certificate}, the certificate of the key")
    if "ssl.keystore.certificate.chain" in given and "ssl.keystore.key" not in given:
        raise ConfigError(
            "ssl.keystore.certificate.chain is given without ssl.keystore.key, the key of the certificate"
        )
    certificate = (
        _in_file(given, "ssl.certificate.location")
        or _in_file(given, "ssl.keystore.location")
        or _in_text(given, "ssl.keystore.certificate.chain")
    )
    return certificate, _in_file(given, "ssl.key.location") or _in_text(given, "ssl.keystore.key")


def _check_store(given: Mapping[str, str], kind: str, *names: str) -> None:
    """Refuse stores that are not PEM, the only supported type. As in Java, the default type is JKS."""
    store = next((name for name in names if name in given), None)
    if store is None:
        if kind in given:
            raise ConfigError(f"{kind} is given, and no store: {names[0]} is missing")
        return
    if given.get(kind, "JKS").strip().upper() != "PEM":
        is_given = f"not {shown(given[kind])}" if kind in given else "which is not the default"
        raise ConfigError(
            f"{store}: {kind} must be PEM, {is_given}; `keytool -exportcert -rfc` and `openssl pkcs12` turn other "
            "stores into PEM"
        )


def _in_file(given: Mapping[str, str], name: str) -> "Pem | None":
    from headwater.client.security.tls import Pem  # noqa: PLC0415

    file = given.get(name)
    if file is None:
        return None
    if not file:
        raise ConfigError(f"{name} is empty")
    return Pem(name, file=file)


def _in_text(given: Mapping[str, str], name: str) -> "Pem | None":
    from headwater.client.security.tls import Pem  # noqa: PLC0415

    text = given.get(name)
    return None if text is None else Pem(name, text=text)


def _is_host_checked(given: Mapping[str, str]) -> bool:
    """Whether to check the host name. An empty value switches the check off, as in Java; librdkafka uses "none"."""
    name = "ssl.endpoint.identification.algorithm"
    text = given.get(name, "https").strip().lower()
    if text not in {"https", "", "none"}:
        raise ConfigError(f"{name} is https, or empty to accept any host name, not {shown(text)}")
    return text == "https"


def _read_versions(given: Mapping[str, str]) -> "list[TLSVersion]":
    from headwater.client.security.tls import VERSIONS  # noqa: PLC0415

    name = "ssl.enabled.protocols"
    named = [each.strip() for each in given.get(name, ",".join(VERSIONS)).split(",")]
    unknown = [each for each in named if each not in VERSIONS]
    if unknown:
        raise ConfigError(f"{name} is made of {', '.join(VERSIONS)}, not {shown(unknown[0])}")
    return [VERSIONS[each] for each in named]
