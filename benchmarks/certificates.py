"""The certificate of a broker under test, and the settings of Kafka and Headwater that use it."""

from collections.abc import Mapping
from pathlib import Path

from benchmarks.loads.access import HOST, Access
from headwater.certificate_authority import CertificateAuthority

_DAYS = 2


class Certificates:
    def __init__(self, directory: Path) -> None:
        authority = CertificateAuthority(directory / "certificates")
        authority.create()
        self.authority = authority.certificate
        # ECDSA with P-256, as most servers have today; key and certificate in one file.
        self.server = authority.issue_server([HOST], _DAYS)

    @property
    def access(self) -> Access:
        return Access(authority=str(self.authority))

    def settings(self) -> Mapping[str, str]:
        """Of a broker that speaks TLS beside plain text."""
        return {
            "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.server),
        }
