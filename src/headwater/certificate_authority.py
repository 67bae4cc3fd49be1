"""A certificate authority in a directory, for trying things out and for tests. Needs the extra `security`.

Law: no file is ever overwritten, and only our user can read those with keys.
"""

import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from headwater.clock import Clock, SystemClock
from headwater.errors import ConfigError

LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
_AUTHORITY_DAYS = 3650
# Clocks of two machines differ.
_BACKDATED = timedelta(minutes=5)
_NAME_LENGTH_MAX = 64
_AUTHORITY_USAGE = x509.KeyUsage(
    digital_signature=True,
    key_cert_sign=True,
    crl_sign=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)


class CertificateAuthority:
    def __init__(self, directory: Path, clock: Clock | None = None) -> None:
        self._directory = directory
        self._clock = clock or SystemClock()
        # What clients trust, and brokers that want certificates of their clients.
        self.certificate = directory / "ca.pem"
        self._key = directory / "ca.key"

    def create(self) -> None:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = _new_key()
        name = _name("Headwater authority")
        certificate = (
            self._draft(name, name, key, _AUTHORITY_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_AUTHORITY_USAGE, critical=True)
            .sign(key, SHA256())
        )
        _write_new(self._key, _pem_of(key), 0o600)
        _write_new(self.certificate, certificate.public_bytes(Encoding.PEM), 0o644)

    def issue_server(self, hosts: Iterable[str], days: int) -> Path:
        """A certificate for the hosts and for this machine, with its key, in one file as `ssl.keystore.location` wants
        it."""
        names = tuple(dict.fromkeys((*hosts, *LOCAL_HOSTS)))
        return self._issue("broker", names[0], days, names)

    def issue_client(self, name: str, days: int) -> Path:
        """A certificate for the user of that name, with its key, in one file."""
        if not name.isprintable() or not 0 < len(name) <= _NAME_LENGTH_MAX or "/" in name:
            raise ConfigError(f"{name[:80]!r} cannot be the name of a user and of a file")
        return self._issue(f"client-{name}", name, days, ())

    def _issue(self, stem: str, name: str, days: int, hosts: Sequence[str]) -> Path:
        authority, signing_key = self._load()
        key = _new_key()
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key())
        draft = (
            self._draft(_name(name), authority.subject, key, days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(issuer, critical=False)
        )
        if hosts:
            alternatives = x509.SubjectAlternativeName([_alternative(host) for host in hosts])
            draft = draft.add_extension(alternatives, critical=False)
        certificate = draft.sign(signing_key, SHA256())
        file = self._directory / f"{stem}.pem"
        _write_new(file, _pem_of(key) + certificate.public_bytes(Encoding.PEM), 0o600)
        return file

    def _load(self) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
        try:
            certificate = x509.load_pem_x509_certificate(self.certificate.read_bytes())
            key = load_pem_private_key(self._key.read_bytes(), None)
        except FileNotFoundError as error:
            raise ConfigError(f"{error.filename} is not there; `headwater tls init` makes an authority") from None
        except (OSError, ValueError, TypeError) as error:
            raise ConfigError(f"{self._directory} holds no authority that can be used: {error}") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ConfigError(f"{self._key}: this is no key of `headwater tls init`")
        return certificate, key

    def _draft(
        self, subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
    ) -> x509.CertificateBuilder:
        begin = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC) - _BACKDATED
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(begin + timedelta(days=days))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError:
        raise ConfigError(f"{host[:80]!r} is neither a host name in ASCII nor an address") from None


def _write_new(file: Path, content: bytes, mode: int) -> None:
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise ConfigError(f"{file} exists already and is not overwritten") from None
    with open(descriptor, "wb") as opened:  # noqa: PTH123 (a path cannot be opened with a mode of its own)
        opened.write(content)
