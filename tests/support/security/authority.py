"""An authority that issues certificates of every kind, those that no honest authority would issue among them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = timedelta(days=1)
CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH
HERE = ("127.0.0.1", "localhost")


class TestAuthority:
    """Every certificate lies with its key in one PEM file of `directory`."""

    __test__ = False

    def __init__(self, directory: Path, name: str = "authority") -> None:
        self._directory = directory
        self._name = _name(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = directory / f"{name}.pem"
        begin = datetime.now(UTC) - _DAY
        signed = (
            x509.CertificateBuilder()
            .subject_name(self._name)
            .issuer_name(self._name)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(begin + 100 * _DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, SHA256())
        )
        self.certificate.write_bytes(signed.public_bytes(Encoding.PEM))

    def issue(
        self,
        common_name: str,
        *,
        file: str | None = None,
        hosts: Sequence[str] = (),
        usage: x509.ObjectIdentifier = CLIENT,
        begins_in: timedelta = -_DAY,
        ends_in: timedelta = 90 * _DAY,
        rsa_bits: int | None = None,
        signs_itself: bool = False,
        subject: x509.Name | None = None,
        extensions: Sequence[x509.ExtensionType] = (),
    ) -> Path:
        """Gives a new file. A key of `rsa_bits` replaces the elliptic one."""
        key = ec.generate_private_key(ec.SECP256R1()) if rsa_bits is None else _rsa_key(rsa_bits)
        now = datetime.now(UTC)
        subject = subject or _name(common_name)
        draft = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject if signs_itself else self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + begins_in)
            .not_valid_after(now + ends_in)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if hosts:
            draft = draft.add_extension(x509.SubjectAlternativeName([_alternative(each) for each in hosts]), False)
        for extension in extensions:
            draft = draft.add_extension(extension, critical=False)
        certificate = draft.sign(key if signs_itself else self._key, SHA256())
        path = self._directory / f"{file or common_name}.pem"
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        path.write_bytes(private + certificate.public_bytes(Encoding.PEM))
        return path

    def issue_server(self, file: str = "broker", hosts: Sequence[str] = HERE) -> Path:
        return self.issue("broker", file=file, hosts=hosts, usage=SERVER)

    def revoke(self, *certificates: Path) -> str:
        """A revocation list, as PEM."""
        now = datetime.now(UTC)
        draft = x509.CertificateRevocationListBuilder().issuer_name(self._name).last_update(now - _DAY)
        draft = draft.next_update(now + 30 * _DAY)
        for file in certificates:
            serial = x509.load_pem_x509_certificate(file.read_bytes()).serial_number
            revoked = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now - _DAY).build()
            draft = draft.add_revoked_certificate(revoked)
        return draft.sign(self._key, SHA256()).public_bytes(Encoding.PEM).decode()


@cache
def _rsa_key(bits: int) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, bits)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
